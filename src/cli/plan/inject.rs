//! `anode plan run` and `inject`: a program's first call, evaluated here or taken to a node by a packet.

use super::check::read;
use crate::apps::plan::{Local, Script, delivered, packet};
use crate::clean;
use crate::cli::attach::Place;
use crate::config::plan::{read_hosts, read_key};
use crate::ee::plan::{authenticator, signed};
use crate::manage::client::plan::{PlanPort, Told};
use crate::manage::resolver;
use crate::trust::{Credential, PrincipalKey};
use crate::wire::Addr;
use anyhow::{Context as _, Result, bail};
use plan::name::Name;
use plan::value::{Callee, Chunk, Host, Value};
use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What follows `anode plan run`.
#[derive(clap::Args)]
pub(super) struct RunArgs {
    /// The source file; `-` is standard input.
    file: PathBuf,
    /// The expression, such as 'f(1, 2)'.
    expression: String,
    /// Hosts by name: lines of an address and names.
    #[arg(long, visible_alias = "hf", value_name = "FILE")]
    hosts: Option<PathBuf>,
}

/// What follows `anode plan inject`.
#[derive(clap::Args)]
pub(super) struct InjectArgs {
    /// The source files, separated by commas.
    files: String,
    /// The resource bound.
    bound: u32,
    /// The call, such as 'ping(hd thisHost(), getHostByName("far"))'; without it, standard input up to a ';'. Its
    /// arguments are evaluated here.
    call: Option<String>,
    #[command(flatten)]
    place: Place,
    /// Attach by TCP: an address, or a port of this host.
    #[arg(short, long, value_name = "ADDRESS:PORT|PORT")]
    port: Option<String>,
    /// Where the packet is evaluated first; the node itself unless given.
    #[arg(long, visible_alias = "ed", value_name = "HOST")]
    eval_dest: Option<String>,
    /// The routing function.
    #[arg(long, visible_alias = "rf", value_name = "NAME", default_value = "defaultRoute")]
    routing: String,
    /// The flow's number.
    #[arg(long, visible_alias = "fid", value_name = "N", default_value_t = 0)]
    flow: u32,
    /// The service that is told of failures; '' for none.
    #[arg(long, value_name = "NAME", default_value = "defHandler")]
    handler: String,
    /// Hosts by name: lines of an address and names.
    #[arg(long, visible_alias = "hf", value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// Write the packet to this file and inject nothing.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Listen as this number, for openPort.
    #[arg(long, value_name = "N", default_value_t = 0)]
    listen: u32,
    /// Print delivered values; otherwise only what is printed is.
    #[arg(long, visible_alias = "val")]
    values: bool,
    /// Say what is sent, and where to.
    #[arg(short, long)]
    verbose: bool,
    /// End after so many replies.
    #[arg(long, value_name = "N")]
    replies: Option<usize>,
    /// End when no reply has come for so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    wait: f64,
    /// Authenticate as this principal of the evaluating node.
    #[arg(long, value_name = "NAME", requires = "key")]
    principal: Option<String>,
    /// The file with the secret shared with that node.
    #[arg(long, value_name = "FILE", requires = "principal")]
    key: Option<PathBuf>,
    /// Sign with the key in this file, made by `anode cred new`.
    #[arg(long, value_name = "KEY", conflicts_with = "principal")]
    sign: Option<PathBuf>,
    /// The credential that grants the signer a role, made by `anode cred grant`.
    #[arg(long, value_name = "FILE", requires = "sign")]
    credential: Option<PathBuf>,
}

fn local(hosts: Option<&Path>) -> Result<Local> {
    let hosts = hosts.map(read_hosts).transpose()?.unwrap_or_default();
    Ok(Local {
        hosts: hosts.into_iter().map(|(name, addr)| (name, Host(addr.0))).collect::<BTreeMap<_, _>>(),
        resolve: Some(|name| resolver::address(name).map(|addr| Host(addr.0))),
        read: Some(|path| std::fs::read(path).ok()),
        ..Local::default()
    })
}

fn script(files: &[PathBuf]) -> Result<Script> {
    let sources: Result<Vec<String>> = files.iter().map(|file| read(file)).collect();
    let name = files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(",");
    Script::new(&name, &sources?.concat()).map_err(|shown| anyhow::anyhow!("the program is wrong\n{shown}"))
}

/// Evaluates here.
pub(super) fn run(arguments: &RunArgs) -> Result<bool> {
    let script = script(std::slice::from_ref(&arguments.file))?;
    let mut local = local(arguments.hosts.as_deref())?;
    local.addresses = vec![Host::v4([127, 0, 0, 1])];
    let value = script.evaluate(&arguments.expression, &mut local);
    local.printed.iter().for_each(|text| crate::say!("{}", clean::printed(text)));
    for (chunk, to, bound) in &local.sent {
        crate::say!("a packet to {to} with {bound}: {}", clean::shown(&Value::Chunk(chunk.clone()).to_string()));
    }
    match value {
        Ok(Value::Unit) => Ok(true),
        Ok(value) => {
            crate::say!("{}", clean::printed(&value.to_string()));
            Ok(true)
        }
        Err(why) => bail!("{}", clean::shown(&why.to_string())),
    }
}

/// Has a node evaluate.
pub(super) fn inject(arguments: &InjectArgs) -> Result<bool> {
    let files: Vec<PathBuf> = arguments.files.split(',').map(PathBuf::from).collect();
    let script = script(&files)?;
    let mut local = local(arguments.hosts.as_deref())?;
    let mut port = match &arguments.output {
        Some(_) => None,
        None => Some(arguments.attach()?),
    };
    if let Some(port) = &port {
        local.addresses = port.addresses().iter().map(|addr| Host(addr.0)).collect();
        local.session = port.session();
    }
    let call = match &arguments.call {
        Some(call) => call.clone(),
        None => first_call()?,
    };
    let chunk = script.first(&call, &mut local).map_err(anyhow::Error::msg)?;
    let packet = arguments.packet(chunk, &local)?;
    let bytes = packet.bytes().context("the packet is too long")?;
    if arguments.verbose {
        let header = &packet.header;
        crate::say_err!("{} bytes, bound {}, to {}", bytes.len(), header.bound, Addr(header.destination.0));
    }
    match (&mut port, &arguments.output) {
        (Some(port), _) => arguments.converse(port, &bytes),
        (None, Some(file)) => {
            std::fs::write(file, &bytes).with_context(|| file.display().to_string())?;
            Ok(true)
        }
        (None, None) => Ok(false),
    }
}

/// What stands on standard input up to a ';'.
fn first_call() -> Result<String> {
    let mut text = Vec::new();
    std::io::stdin().lock().read_until(b';', &mut text)?;
    Ok(String::from_utf8(text)?)
}

impl InjectArgs {
    fn attach(&self) -> Result<PlanPort> {
        let Some(port) = &self.port else {
            return Ok(PlanPort::attach(&self.place.dir()?, self.listen)?);
        };
        let to: SocketAddr = match port.parse::<u16>() {
            Ok(port) => ([127, 0, 0, 1], port).into(),
            Err(_) => port.parse().with_context(|| format!("--port {port}"))?,
        };
        Ok(PlanPort::attach_tcp(to, self.listen)?)
    }

    fn packet(&self, chunk: Arc<Chunk>, local: &Local) -> Result<plan::packet::Packet> {
        let mut packet = packet(chunk, self.bound);
        let name = |text: &str| Name::new(text).with_context(|| format!("'{text}' is no service's name"));
        packet.header.routing = name(&self.routing)?;
        packet.header.handler = name(&self.handler)?;
        packet.header.flow = self.flow;
        if let Some(host) = &self.eval_dest {
            let found = local.hosts.get(host).copied().or_else(|| resolver::address(host).map(|addr| Host(addr.0)));
            packet.header.destination = found.with_context(|| format!("--eval-dest {host}: no such host"))?;
        }
        if (self.principal.is_some() || self.sign.is_some()) && packet.header.destination == Host::default() {
            packet.header.destination = local.addresses.first().copied().unwrap_or_default();
        }
        if let (Some(who), Some(key)) = (&self.principal, &self.key) {
            packet.chunk = authenticated(&packet, who, &read_key(key)?)?;
        }
        if let Some(key) = &self.sign {
            packet.chunk = self.signed(&packet, &PrincipalKey::load(key)?)?;
        }
        Ok(packet)
    }

    /// The chunk, signed by this key for the packet's destination.
    fn signed(&self, packet: &plan::packet::Packet, key: &PrincipalKey) -> Result<Arc<Chunk>> {
        let read = |file: &PathBuf| -> Result<Credential> {
            let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
            text.parse().with_context(|| file.display().to_string())
        };
        let credential = self.credential.as_ref().map(read).transpose()?;
        let chunk = signed(key, credential.as_ref(), unix_ns()?, packet.header.destination, &packet.chunk);
        Ok(Arc::new(chunk.context("the chunk is too large")?))
    }

    /// Injects, and prints what comes back; whether anything that was waited for did.
    fn converse(&self, port: &mut PlanPort, bytes: &[u8]) -> Result<bool> {
        port.inject(bytes)?;
        let wait = Duration::try_from_secs_f64(self.wait).context("--wait: seconds")?;
        let (mut replies, mut last) = (0, Instant::now());
        while self.replies.is_none_or(|wanted| replies < wanted) {
            let Some(told) = port.receive(wait.saturating_sub(last.elapsed()))? else { break };
            if let Some(line) = self.line(&told) {
                crate::say!("{line}");
            }
            replies += 1;
            last = Instant::now();
        }
        Ok(self.replies.is_none_or(|wanted| replies >= wanted))
    }

    fn line(&self, told: &Told) -> Option<String> {
        match told {
            Told::Printed(text) => Some(clean::printed(text)),
            Told::Delivered(_, bytes) if self.values => Some(
                delivered(bytes).map_or("an unknown value".into(), |(_, value)| clean::printed(&value.to_string())),
            ),
            Told::Opened(_, from, number) if self.verbose => Some(format!("opened by {from} to {number}")),
            Told::Closed(_) if self.verbose => Some("closed".into()),
            _ => None,
        }
    }
}

/// Nanoseconds since 1970.
fn unix_ns() -> Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos())?)
}

/// The chunk in the name of a principal. The time is its number, so numbers grow.
fn authenticated(packet: &plan::packet::Packet, who: &str, key: &[u8; 32]) -> Result<Arc<Chunk>> {
    let number = unix_ns()? as i64;
    let code = authenticator(key, number, packet.header.destination, &packet.chunk).context("the chunk is too long")?;
    let arguments =
        [Value::text(who.as_bytes()), Value::Int(number), Value::Blob(code.into()), Value::Chunk(packet.chunk.clone())];
    let chunk = Chunk::new(Callee::Service(const { Name::known("authEval") }), arguments);
    Ok(Arc::new(chunk.context("the chunk is too large")?))
}
