//! Notes of `anode node check` on what this host lacks for the kernel half: the programs run, and find no way. Example:
//! forwarding is off.

use crate::config::NodeFile;
use crate::manage::Planned;
use crate::port::NativeInterface;
use crate::sys::netdev;

/// A line for each thing that a port with `kernel = true` lacks.
pub(super) fn notes(file: &NodeFile, planned: &Planned) -> Vec<String> {
    let mut notes = Vec::new();
    if !planned.config.kernel {
        return notes;
    }
    // A kernel that does not say is believed to deliver.
    let redirected = netdev::redirected().unwrap_or_default();
    for ((port, known), opening) in file.ports.iter().zip(&planned.config.ports).zip(planned.openings()) {
        let (Some(NativeInterface { index: interface, kernel: true, .. }), Some(name)) =
            (opening.interface(), &port.packet)
        else {
            continue;
        };
        for (family, v4, remedy) in
            [("ipv4", true, "net.ipv4.ip_forward=1"), ("ipv6", false, "net.ipv6.conf.all.forwarding=1")]
        {
            let has = known.addresses.iter().any(|(addr, _)| addr.is_v4() == v4 && !addr.is_link_local());
            if has && is_off(family, name) {
                notes.push(format!(
                    "port {}: {family} forwarding is off, so the kernel half finds no way for what comes by it; sysctl {remedy}",
                    known.name
                ));
            }
        }
        if redirected.get(interface) == Some(&0) {
            notes.push(format!(
                "port {}: frames that the kernel half redirects to it would not arrive now, so the user half sends them; of a veth, \
                 its other end has neither XDP nor GRO: ethtool -K PEER gro on",
                known.name
            ));
        }
    }
    notes
}

/// Whether packets that come by an interface are not forwarded.
fn is_off(family: &str, interface: &str) -> bool {
    let setting = std::fs::read_to_string(format!("/proc/sys/net/{family}/conf/{interface}/forwarding"));
    setting.is_ok_and(|text| text.trim() == "0")
}
