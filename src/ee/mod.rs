//! ee
