//! checksum
