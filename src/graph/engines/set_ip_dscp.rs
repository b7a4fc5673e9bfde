//! The class of service of packets (RFC 2474).

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::packet;

/// `SetIPDSCP`.
pub const CLASS: EngineClass = EngineClass {
    name: "SetIPDSCP",
    doc: "Sets the DSCP of IPv4 packets. SetIPDSCP(DSCP)",
    make: Make::element("1/1", |args| Some(Box::new(SetIpDscp(args.must("DSCP")?)))),
};

struct SetIpDscp(u8);

impl Engine for SetIpDscp {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        let bytes = packet::from_ip_mut(&mut frame);
        if let Some([first, service]) = bytes.first_chunk::<2>().copied() {
            packet::change_word(bytes, 0, [first, self.0 << 2 | service & 3]);
        }
        Pushed::To(0, frame)
    }
}
