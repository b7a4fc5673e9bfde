//! The services of every node, such as `print` and `thisHost`. A new one is a function here and a line in [`CORE`]; its
//! type is in the language's table of names.

mod data;
mod graphs;
mod header;
mod hosts;
mod install;
mod network;
mod ports;

use super::evaluate::raise;
use super::table::Call;
use crate::wire::Addr;
use plan::eval::{self, Fault, Stop};
use plan::name::Name;
use plan::value::{Host, Value};

/// All of them, by name.
pub(super) const CORE: &[(&str, Call)] = &[
    ("print", ports::print),
    ("defHandler", ports::default_handler),
    ("getPort", ports::port),
    ("openPort", ports::open),
    ("closePort", ports::close),
    ("deliver", ports::deliver),
    ("thisHost", hosts::this_host),
    ("thisHostIs", hosts::this_host_is),
    ("getHostByName", hosts::by_name),
    ("getNeighbors", hosts::neighbours),
    ("getDevices", hosts::devices),
    ("getHostOn", hosts::host_on),
    ("getMTU", hosts::mtu),
    ("defaultRoute", hosts::default_route),
    ("RIP", hosts::rip),
    ("flowRoute", hosts::flow_route),
    ("setFlow", hosts::set_flow),
    ("getRouteTable", hosts::route_table),
    ("getSource", header::source),
    ("getDest", header::destination),
    ("getPrevious", header::previous),
    ("getSrcDev", header::device),
    ("getSession", header::session),
    ("getFlow", header::flow),
    ("getHandler", header::handler),
    ("getRouting", header::routing),
    ("getPrincipal", header::principal),
    ("time", header::time),
    ("rand", header::random),
    ("memoryUse", header::memory),
    ("put", data::put),
    ("get", data::get),
    ("makeBlob", data::make_blob),
    ("explodeBlob", data::explode_blob),
    ("getBlobFromFile", data::blob_from_file),
    ("fragment", data::fragment),
    ("sizeOf", data::size),
    ("csum", data::checksum),
    ("acknowledged", network::acknowledged),
    ("bandwidthReceive", network::receive),
    ("bandwidthSend", network::send),
    ("bandwidthCount", network::count),
    ("bandwidthReport", network::report),
    ("authEval", network::layer),
    ("reliably", network::layer),
    ("reassemble", network::layer),
    ("signedBy", network::layer),
    (INSTALL, install::install),
    ("graphEdit", graphs::edit),
    ("graphApply", graphs::apply),
    ("graphRead", graphs::read),
    ("graphWrite", graphs::write),
    ("graphShow", graphs::show),
    ("graphWhy", graphs::why),
];

pub(super) use graphs::NAMES as GRAPHS;

/// Its name, which the table of services knows: not everybody sees it.
pub(super) const INSTALL: &str = "installServices";

/// What a service gives.
type Given = eval::Result<Value>;

/// The arguments do not fit the service's type.
fn wrong(service: &'static str) -> Given {
    Err(Fault::Type(service).into())
}

fn host(addr: Addr) -> Value {
    Value::Host(Host(addr.0))
}

fn tuple<const N: usize>(items: [Value; N]) -> Given {
    Value::tuple(items).ok_or(Fault::Value.into())
}

fn list(items: impl IntoIterator<Item = Value, IntoIter: DoubleEndedIterator>) -> Given {
    Value::list(items.into_iter()).ok_or(Fault::Value.into())
}

fn not_found() -> Stop {
    raise(const { Name::known("NotFound") })
}

fn refused() -> Stop {
    raise(const { Name::known("Refused") })
}

fn too_big() -> Stop {
    raise(const { Name::known("TooBig") })
}

fn bad_host() -> Stop {
    raise(const { Name::known("BadHost") })
}

fn bad_port() -> Stop {
    raise(const { Name::known("BadPort") })
}
