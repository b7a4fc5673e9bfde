//! nodeos
