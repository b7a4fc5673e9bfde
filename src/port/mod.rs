//! Ports: where frames enter and leave a node, such as `eth1` or a UDP socket; and the table of their kinds.
//!
//! [`crate::frame`] has the buffer all ports share; [`udp`], [`native`] and [`vacant`] are the kinds of ports, [`packet`] and [`xdp`]
//! the two ways of native ones, [`pcap`] the format of captures. The ports themselves are the edge of the sans-I/O core:
//! the node names them by index and never sees a socket.
//!
//! A new kind is one file with a [`PortKind`], and one row of the table: its [`Opening`] is what the configuration makes
//! of its key (`config/ports.rs`). Calls are dispatched by the table's `match`, none through a pointer.

mod kind;
pub mod packet;
pub mod pcap;
mod queue;
pub mod sorted;
pub mod xdp;

use crate::frame::WorkerId;
use crate::frame::{Frame, FramePool, PortId};
use crate::sys::poll::Poll;
pub use kind::{BeforeStack, NativeInterface, PortKind};
use packet::{Change, Taker};
use pcap::{Beginning, HEADERS};
pub use queue::SendQueue;
use std::io;
use std::net::SocketAddr;
use xdp::QueueSocket;

/// Makes of the table what others see of it.
macro_rules! ports {
    ($($(#[$when:meta])? $kind:ident = $file:ident::$port:ident,)+) => {
        $($(#[$when])? pub mod $file;)+

        /// A port of any kind.
        pub enum Socket {
            $($(#[$when])? #[doc = concat!("Of the kind `", stringify!($file), "`.")] $kind($file::$port),)+
        }

        /// How a port of any kind is opened.
        #[derive(Clone, Debug)]
        pub enum Opening {
            $(
                $(#[$when])?
                #[doc = concat!("Of the kind `", stringify!($file), "`.")]
                $kind(<$file::$port as PortKind>::Opening),
            )+
        }

        impl Opening {
            /// As [`PortKind::open`].
            pub fn open(
                self,
                id: PortId,
                mtu: usize,
                before: BeforeStack,
                workers: WorkerId,
            ) -> io::Result<(Vec<Socket>, Option<Taker>)> {
                match self {
                    $($(#[$when])? Opening::$kind(opening) => {
                        let (ports, taker) = <$file::$port as PortKind>::open(id, opening, mtu, before, workers)?;
                        Ok((ports.into_iter().map(Socket::$kind).collect(), taker))
                    })+
                }
            }

            /// As [`PortKind::interface`].
            pub fn interface(&self) -> Option<&NativeInterface> {
                match self {
                    $($(#[$when])? Opening::$kind(opening) => $file::$port::interface(opening),)+
                }
            }

            /// As [`PortKind::BEGINNING`].
            pub fn beginning(&self) -> Beginning {
                match self {
                    $($(#[$when])? Opening::$kind(_) => <$file::$port as PortKind>::BEGINNING,)+
                }
            }
        }

        /// The port's own, whatever its kind.
        macro_rules! own {
            ($socket:expr, $own:ident => $call:expr) => {
                match $socket {
                    $($(#[$when])? Socket::$kind($own) => $call,)+
                }
            };
        }
    };
}

ports! {
    Udp = udp::UdpPort,
    Native = native::NativePort,
    Vacant = vacant::VacantPort,
    #[cfg(test)] Echo = tests::EchoPort,
}

/// As [`PortKind`] says.
#[expect(missing_docs, reason = "each is the trait's")]
impl Socket {
    pub fn headers(&self, room: &mut [u8; HEADERS], frame: &Frame, inward: bool) -> usize {
        own!(self, port => port.headers(room, frame, inward))
    }

    pub fn wait_for(&self, poll: &mut Poll, token: u64) -> io::Result<()> {
        own!(self, port => port.wait_for(poll, token))
    }

    pub fn receive(&mut self, pool: &mut FramePool, into: &mut Vec<Frame>) -> io::Result<(usize, bool)> {
        own!(self, port => port.receive(pool, into))
    }

    pub fn queue(&mut self) -> &mut SendQueue {
        own!(self, port => port.queue())
    }

    /// Whether closing it may take its time.
    pub fn closes_slowly(&self) -> bool {
        matches!(self, Socket::Native(_))
    }

    pub fn flush(&mut self, pool: &mut FramePool, refused: &mut Vec<Frame>) {
        own!(self, port => port.flush(pool, refused))
    }

    pub fn overflows(&mut self) -> u32 {
        own!(self, port => port.overflows())
    }

    pub fn cut_short(&mut self) -> u32 {
        own!(self, port => port.cut_short())
    }

    pub fn change(&mut self, change: Change) -> Option<Change> {
        own!(self, port => port.change(change))
    }

    pub fn leave_interface(&mut self) -> bool {
        own!(self, port => port.leave_interface())
    }

    pub fn take_sockets(&mut self, sockets: Vec<QueueSocket>) -> bool {
        own!(self, port => port.take_sockets(sockets))
    }

    pub fn set_peers(&mut self, peers: &[Option<SocketAddr>]) {
        own!(self, port => port.set_peers(peers));
    }

    pub fn poll_driver(&self) {
        own!(self, port => port.poll_driver());
    }

    pub fn settled(&mut self) {
        own!(self, port => port.settled());
    }
}
