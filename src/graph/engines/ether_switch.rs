//! A learning bridge (IEEE 802.1D without spanning trees).

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::wire::ethernet::{FrameView, Mac};
use std::collections::HashMap;

/// `EtherSwitch`.
pub const CLASS: EngineClass = EngineClass {
    name: "EtherSwitch",
    doc: "Sends frames to where their receiver was heard, and to all others if that is not known. \
          EtherSwitch([TIMEOUT n], in seconds). Handler: table",
    make: Make::with("-/=", "h/h", "#/[^#]", |args| {
        let timeout = args.key("TIMEOUT", 300u64)?;
        Some(Box::new(EtherSwitch { timeout: timeout.max(1) * 1_000_000_000, stations: HashMap::new(), swept: 0 }))
    }),
};

/// Stations that are known at one time, at most: beyond that frames go to all.
const STATIONS_MAX: usize = 4096;

/// Bytes that one takes, with what the table has free.
const STATION_BYTES: u64 = 64;

/// Time between two looks through all stations, in nanoseconds.
const SWEEP: u64 = 100_000_000;

struct EtherSwitch {
    timeout: u64,
    /// Where a station was heard last, and when.
    stations: HashMap<Mac, (u16, u64)>,
    /// When it last looked who is not there any more.
    swept: u64,
}

impl Engine for EtherSwitch {
    fn keeps(&self) -> Option<u64> {
        Some(self.stations.len() as u64 * STATION_BYTES)
    }

    fn push(&mut self, input: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let Some((to, from)) = FrameView::new_checked(frame.bytes()).ok().map(|it| (it.destination(), it.source()))
        else {
            return Pushed::thrown(frame);
        };
        self.learn(from, input, cx);
        let heard = |(output, at): &(u16, u64)| (at + self.timeout > cx.now).then_some(*output);
        match self.stations.get(&to).filter(|_| !to.is_group()).and_then(heard) {
            Some(output) if output == input => Pushed::thrown(frame),
            Some(output) => Pushed::To(output, frame),
            None => spread(input, frame, cx),
        }
    }

    fn read(&self, handler: &str) -> Option<String> {
        (handler == "table").then(|| {
            let mut lines: Vec<_> = self.stations.iter().map(|(mac, (port, _))| format!("{mac} {port}")).collect();
            lines.sort();
            lines.join("\n")
        })
    }

    fn take_state(&mut self, before: &mut dyn Engine) {
        if let Some(before) = before.as_any().and_then(|before| before.downcast_mut::<EtherSwitch>()) {
            self.stations = core::mem::take(&mut before.stations);
        }
    }

    fn as_any(&mut self) -> Option<&mut dyn core::any::Any> {
        Some(self)
    }
}

impl EtherSwitch {
    fn learn(&mut self, station: Mac, input: u16, cx: &GraphCx<'_>) {
        let now = cx.now;
        if station.is_group() {
            return;
        }
        if self.stations.len() >= STATIONS_MAX && !self.stations.contains_key(&station) && self.swept + SWEEP <= now {
            let timeout = self.timeout;
            self.swept = now;
            self.stations.retain(|_, (_, at)| *at + timeout > now);
        }
        let has_room = self.stations.len() < STATIONS_MAX && !cx.scratch.no_room;
        if has_room || self.stations.contains_key(&station) {
            self.stations.insert(station, (input, now));
        }
    }
}

/// A frame leaves by all outputs but that of the input.
fn spread(input: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
    let others = (0..cx.outputs()).filter(|output| *output != input);
    let Some(last) = others.clone().next_back() else { return Pushed::thrown(frame) };
    for output in others.filter(|output| *output != last) {
        let copy = cx.copy(&frame);
        cx.emit(output, copy);
    }
    Pushed::To(last, frame)
}
