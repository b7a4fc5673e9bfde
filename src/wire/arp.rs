//! arp
