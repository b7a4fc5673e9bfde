//! What a link does to frames, wherever it is: in the simulator's virtual time, or between two interfaces of a lab in real time.
//!
//! [`quality`] is what a link is asked to be like, [`model`] what becomes of each frame on one direction of it, and [`meter`]
//! how the process that carries a lab's links shows nodes what waits there.

pub mod meter;
pub mod model;
pub mod quality;

pub use model::{Fate, LineUse, LinkModel};
pub use quality::{LinkQuality, Unfit};
