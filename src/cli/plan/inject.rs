//! `anode plan run` and `inject`: a program's first call, evaluated here or taken to a node by a packet.

use super::check::sources;
use super::say::{Outcome, Voice};
use crate::apps::plan::{Local, Script, Unevaluated, delivered, packet};
use crate::clean;
use crate::cli::attach::{Place, hosts_in};
use crate::config::plan::{read_hosts, read_key};
use crate::ee::plan::{authenticator, signed};
use crate::manage::client::plan::{PlanPort, Told};
use crate::manage::client::{ClientError, Control};
use crate::manage::resolver;
use crate::trust::{Credential, PrincipalKey};
use crate::wire::Addr;
use anyhow::{Context as _, Result, bail};
use model::Ask;
use model::programs::{self, Line, Raised, Reply};
use model::status::Status;
use plan::name::Name;
use plan::syntax::lexer::{SOURCE_MAX, end_of_call};
use plan::value::{Callee, Chunk, Host, Value};
use std::collections::BTreeMap;
use std::io::{BufRead as _, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What follows `anode plan run`.
#[derive(clap::Args)]
pub(super) struct RunArgs {
    /// The source files, separated by commas; `-` is standard input.
    files: String,
    /// The expression, such as 'f(1, 2)'.
    expression: String,
    /// Hosts by name: lines of an address and names.
    #[arg(long, visible_alias = "hf", value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// The resource bound, for getRB and what is sent.
    #[arg(long, value_name = "N", default_value_t = 0)]
    bound: u32,
    /// Print one JSON object: outcome, value or exception, texts printed, packets made.
    #[arg(long)]
    json: bool,
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
    /// Hosts by name: lines of an address and names; by default those of the node's run directory.
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
    /// Print JSON: an object for each reply, and one that says how it ended.
    #[arg(long)]
    json: bool,
    /// End after so many replies; 0 waits for none.
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
    let script = Script::of(sources(files)?).map_err(|why| anyhow::anyhow!("the program: {why}"))?;
    let warnings = script.warnings();
    if !warnings.is_empty() {
        crate::say_err!("{warnings}");
    }
    Ok(script)
}

/// A call's value; without one, how it ended, which is said.
fn ended<T>(what: &str, given: Result<T, Unevaluated>, voice: &mut Voice) -> Result<Result<T, Outcome>> {
    let why = match given {
        Ok(value) => return Ok(Ok(value)),
        Err(Unevaluated::Wrong(shown)) => bail!("{what}: it is wrong\n{shown}"),
        Err(Unevaluated::Raised(name)) => (name.to_string(), format!("{what} raises {name}")),
        Err(Unevaluated::Failed(fault)) => (fault.to_string(), format!("{what} ends with {fault}")),
    };
    let (exception, said) = why;
    voice.object(&Raised { outcome: Outcome::Exception.name().into(), exception });
    crate::say_err!("anode: {}", clean::shown(&said));
    Ok(Err(Outcome::Exception))
}

/// Evaluates here.
pub(super) fn run(arguments: &RunArgs) -> Result<Outcome> {
    let mut voice = Voice::new(arguments.json);
    let files: Vec<PathBuf> = arguments.files.split(',').map(PathBuf::from).collect();
    let script = script(&files)?;
    let mut local = local(arguments.hosts.as_deref())?;
    local.addresses = vec![Host::v4([127, 0, 0, 1])];
    (local.bound, local.sends) = (arguments.bound, true);
    let value = script.evaluate(&arguments.expression, &mut local);
    let sent = |(chunk, to, bound): &(Arc<Chunk>, Host, u32)| (Value::Chunk(chunk.clone()).to_string(), *to, *bound);
    let sent: Vec<_> = local.sent.iter().map(sent).collect();
    if !voice.json {
        local.printed.iter().for_each(|text| voice.text(text));
        for (chunk, to, bound) in &sent {
            voice.line(&format!("a packet to {to} with {bound}: {}", clean::shown(chunk)));
        }
    }
    let value = match ended(&arguments.expression, value, &mut voice)? {
        Ok(value) => value,
        Err(outcome) => return Ok(outcome),
    };
    let packet = |(chunk, to, bound): (String, Host, u32)| programs::Packet { chunk, to: to.to_string(), bound };
    voice.object(&programs::Value {
        outcome: Outcome::Value.name().into(),
        value: value.to_string(),
        printed: local.printed,
        sent: sent.into_iter().map(packet).collect(),
    });
    if !voice.json && value != Value::Unit {
        voice.line(&clean::lines(&value.to_string()));
    }
    Ok(Outcome::Value)
}

/// Has a node evaluate.
pub(super) fn inject(arguments: &InjectArgs) -> Result<Outcome> {
    let mut voice = Voice::new(arguments.json);
    let files: Vec<PathBuf> = arguments.files.split(',').map(PathBuf::from).collect();
    let script = script(&files)?;
    let mut local = local(arguments.hosts.as_deref())?;
    if arguments.hosts.is_none() && arguments.output.is_none() && arguments.port.is_none() {
        // The names that the node knows itself.
        let hosts = hosts_in(&arguments.place.dir()?)?;
        local.hosts = hosts.into_iter().map(|(name, addr)| (name, Host(addr.0))).collect();
    }
    let mut port = match &arguments.output {
        Some(_) => None,
        None => Some(arguments.attach()?),
    };
    local.bound = arguments.bound;
    if let Some(port) = &port {
        local.addresses = port.addresses().iter().map(|addr| Host(addr.0)).collect();
        local.session = port.session();
        local.bound = arguments.clamped();
    }
    let call = match &arguments.call {
        Some(call) => call.clone(),
        None => first_call()?,
    };
    let chunk = script.first(&call, &mut local);
    for text in &local.printed {
        if voice.json { voice.object(&Line::Said { said: text.clone() }) } else { voice.text(text) }
    }
    let chunk = match ended("the first call", chunk, &mut voice)? {
        Ok(chunk) => chunk,
        Err(outcome) => return Ok(outcome),
    };
    let packet = arguments.packet(chunk, &local)?;
    let bytes = packet.bytes().context("the packet is too long")?;
    if arguments.verbose {
        let header = &packet.header;
        crate::say_err!("{} bytes, bound {}, to {}", bytes.len(), header.bound, Addr(header.destination.0));
    }
    match (&mut port, &arguments.output) {
        (Some(port), _) => arguments.converse(port, &bytes, &mut voice),
        (None, Some(file)) => {
            std::fs::write(file, &bytes).with_context(|| file.display().to_string())?;
            Ok(Outcome::Value)
        }
        (None, None) => Ok(Outcome::Silence),
    }
}

/// What stands on standard input up to the ';' that ends it, or to its end.
fn first_call() -> Result<String> {
    let mut text = String::new();
    let mut input = std::io::stdin().lock();
    while end_of_call(&text).is_none() && text.len() <= SOURCE_MAX {
        let room = (SOURCE_MAX + 1 - text.len()) as u64;
        if (&mut input).take(room.max(1)).read_line(&mut text)? == 0 {
            break;
        }
    }
    Ok(text)
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

    /// The bound that the node leaves to the packet, which is said if it is less. By TCP nobody can know before.
    fn clamped(&self) -> u32 {
        let status = match &self.port {
            Some(_) => None,
            None => {
                self.place.dir().ok().and_then(|dir| Control::connect(&dir).ok()?.asked::<Status>(&Ask::Status).ok())
            }
        };
        let most = status.and_then(|status| status.plan).map(|plan| plan.bound_max);
        let bound = most.map_or(self.bound, |most| self.bound.min(most));
        if bound < self.bound {
            let why = "the most that this node lets an application have: bound_max of [plan]";
            crate::say_err!("anode: the bound {} becomes {bound}, {why}", self.bound);
        }
        bound
    }

    /// Injects, and prints what comes back.
    fn converse(&self, port: &mut PlanPort, bytes: &[u8], voice: &mut Voice) -> Result<Outcome> {
        port.tell_ends()?;
        port.inject(bytes)?;
        let wait = Duration::try_from_secs_f64(self.wait).context("--wait: seconds")?;
        let (mut replies, mut last, mut outcome) = (0, Instant::now(), Outcome::Value);
        while self.replies.is_none_or(|wanted| replies < wanted) {
            let told = match port.receive(wait.saturating_sub(last.elapsed())) {
                Err(ClientError::Refused(why)) if replies > 0 => {
                    voice.object(&Reply::Refused { why: why.clone() });
                    crate::say_err!("anode: not sent on by this node: {}", clean::shown(&why));
                    continue;
                }
                told => told?,
            };
            let Some(told) = told else { break };
            if self.told(&told, voice) == Outcome::Exception {
                outcome = Outcome::Exception;
            }
            replies += 1;
            last = Instant::now();
        }
        if outcome == Outcome::Value && replies < self.replies.unwrap_or(1) {
            outcome = Outcome::Silence;
        }
        voice.object(&Line::End { outcome: outcome.name().into(), replies: replies as u64 });
        Ok(outcome)
    }

    fn told(&self, told: &Told, voice: &mut Voice) -> Outcome {
        match told {
            Told::Printed(text) => return voice.printed(text),
            Told::Delivered(_, bytes) => {
                let value = delivered(bytes).map_or("an unknown value".into(), |(_, value)| value.to_string());
                voice.object(&Reply::Delivered { value: value.clone() });
                if self.values && !voice.json {
                    voice.line(&clean::lines(&value));
                }
            }
            Told::Opened(_, from, number) => {
                voice.object(&Reply::Opened { host: from.to_string(), number: *number });
                if self.verbose && !voice.json {
                    voice.line(&format!("opened by {from} to {number}"));
                }
            }
            Told::Closed(_) => {
                voice.object(&Reply::Closed);
                if self.verbose && !voice.json {
                    voice.line("closed");
                }
            }
        }
        Outcome::Value
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
