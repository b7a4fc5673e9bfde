//! Reasons for drops, such as `no-route` and `budget`: one for each drop, with a line of help for the operator.
//!
//! Every drop in the node is counted under exactly one of these, node-wide and in the domain that
//! paid for the packet. `anode node status` prints them with their help.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal $(was $old:literal)?, $help:literal;)+) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Reason { $($(#[doc = $doc])+ $variant,)+ }

        impl Reason {
            /// All reasons, in the order of their counters.
            pub const ALL: &'static [Reason] = &[$(Reason::$variant,)+];

            /// The counter's name.
            pub fn name(self) -> &'static str {
                match self { $(Reason::$variant => $name,)+ }
            }

            /// The name under which it was counted, together with others, in the version before this one.
            pub fn was(self) -> Option<&'static str> {
                match self { $(Reason::$variant => None::<&'static str>$(.or(Some($old)))?,)+ }
            }

            /// The meaning, and a remedy.
            pub fn help(self) -> &'static str {
                match self { $(Reason::$variant => $help,)+ }
            }
        }
    };
}

reasons! {
    /// Ethernet, IP or UDP headers are cut short, contradict themselves or have a forbidden value.
    MalformedPacket = "malformed-packet" was "malformed",
        "Ethernet, IP or UDP headers were cut short or contradict \
         themselves: look at the sender, or at a link that damages packets";
    /// An ANEP header or one of its options is wrong.
    MalformedAnep = "malformed-anep" was "malformed",
        "an ANEP header, or its checksum or an option, is wrong: look at \
         the sender, or at a link that damages packets";
    /// A capsule header is wrong.
    MalformedCapsule = "malformed-capsule" was "malformed", "a capsule header was cut short or has a forbidden value: look at the sender";
    /// A fetch message is wrong, or its part does not fit the object.
    MalformedFetch = "malformed-fetch" was "malformed",
        "a neighbour sent a fetch message that means nothing, or a \
         part that does not fit its object";
    /// A revocation is cut short or has a forbidden value.
    MalformedRevocation = "malformed-revocation" was "malformed",
        "a neighbour sent a revocation that is cut short or \
         has a forbidden value";
    /// A PLAN message, or the packet in it, is wrong.
    MalformedPlan = "malformed-plan" was "malformed",
        "a PLAN message, or the packet in it, was cut short or \
         contradicts itself: look at the sender";
    /// The header that a module of the sender's channel has put on is wrong.
    MalformedModule = "malformed-module" was "malformed",
        "a payload does not have the headers of the modules of its \
         channel: both ends need the same modules";
    /// The checksum of a module is wrong.
    ModuleChecksum = "module-checksum" was "malformed", "a payload was damaged on its way: its checksum module found a wrong sum";
    /// A frame has come up from the kernel half with a header that means nothing.
    MalformedPunt = "malformed-punt" was "malformed",
        "a frame came up from the kernel half with a header that means \
         nothing: a bug, please report it";
    /// An ARP message is wrong.
    MalformedArp = "malformed-arp", "an ARP message was cut short or has a forbidden value: look at the hosts on the link";
    /// Code has left a capsule header that means nothing.
    CodeHeader = "code-header" was "malformed", "the capsule's code left a header that means nothing: a bug in the code";
    /// An environment sent a frame that means nothing.
    MalformedOutgoing = "malformed-outgoing" was "malformed",
        "an environment sent by a channel what is no frame of \
         its link: a bug in the environment";
    /// An overlay datagram from an address that is no neighbour.
    Stranger = "stranger", "a datagram came from an address that is no configured neighbour of the port";
    /// A port demands that neighbours prove what they send, and this one does not.
    Unauthenticated = "unauthenticated",
        "a packet without a neighbour's proof, or with a key that the port does not \
         know, came in by a port that demands it (demand = [\"mac\"])";
    /// A proof is wrong.
    MacForged = "mac-forged",
        "a packet's proof is wrong: forged, damaged, or the two sides of the link have different \
         secrets or addresses";
    /// A proof has come before, or is too old.
    MacReplayed = "mac-replayed",
        "a packet came again, or later than 1024 packets behind the newest: replayed, or the \
         sender's clock is more than a minute behind";
    /// A port demands signed code or packets, and this is not signed.
    Unsigned = "unsigned",
        "unsigned code, or an unsigned PLAN packet, or one whose signer or credential was revoked, \
         came in by a port that demands signatures (demand = [\"signed-code\", \"signed-plan\"])";
    /// A revocation from somebody who is no neighbour.
    RevocationForeign = "revocation-foreign", "a revocation from an address that is no neighbour";
    /// A neighbour tells more revocations than its share.
    RevocationRate = "revocation-rate", "a neighbour tells revocations faster than 8 a second";
    /// A revocation is not signed by its signer.
    RevocationForged = "revocation-forged", "a revocation's signature is wrong: forged, or a lying neighbour";
    /// There is no room for another revocation of this signer.
    RevocationFull = "revocation-full",
        "a signer has revoked more than its share of the table: revoke the principal \
         in the place of many tokens";
    /// Bytes that are no hello.
    MalformedHello = "malformed-hello", "a neighbour's hello was cut short or has a forbidden value: look at the neighbour's version";
    /// A hello from somebody who is no neighbour, or in another's name.
    HelloForeign = "hello-foreign",
        "a hello from an address that is no neighbour and not on the link, or with an address that \
         is not its sender's: forged, or two nodes with one address";
    /// Neighbours say hello more often than their share.
    HelloRate = "hello-rate",
        "a neighbour says hello faster than 8 times a second, or strangers of a port do in more than 512 \
         new names a second, or the table of neighbours is full of others";
    /// The loader has no time to verify a revocation.
    RevocationBusy = "revocation-busy", "the loader had no time to verify a revocation: neighbours tell it again";
    /// An ANEP type nobody here speaks, with the flag that asks to discard it.
    UnknownType = "unknown-type", "an ANEP packet of a type this node does not speak asked to be discarded";
    /// The IP destination and the capsule's destination differ.
    DestinationMismatch = "destination-mismatch", "the IP destination and the capsule's destination differ: forged or built wrongly";
    /// The IP time to live ran out.
    TimeToLive = "time-to-live", "the IP time to live ran out: a routing loop, or a sender's value too small";
    /// The way on is the way back, on an overlay, which has no time to live.
    WayBack = "way-back" was "time-to-live",
        "the next hop of a packet of a foreign type is the neighbour that it came \
         from: a routing loop";
    /// The resource bound ran out.
    Bound = "bound", "the resource bound is used up: a longer path than the sender thought, or a loop";
    /// The destination has no route.
    NoRoute = "no-route", "no route to the destination: add one, or run a routing daemon";
    /// The addresses of a packet are of two families.
    FamilyMismatch = "family-mismatch" was "no-route", "one address of a packet is IPv4 and the other IPv6: no header has both";
    /// A port that is not there.
    NoPort = "no-port" was "no-route", "a frame came in by a port that is not there, or is to leave by one";
    /// The next hop of an overlay route is no neighbour of the port.
    NoNeighbour = "no-neighbour", "a route names a next hop that is no neighbour of its port: correct the configuration";
    /// An overlay port carries ANEP only.
    NotCarried = "not-carried" was "no-neighbour",
        "a channel of Ethernet, IP or UDP leads to an overlay port, which \
         carries ANEP only: correct the channel or the routes";
    /// The next hop's link address could not be found out in time.
    Unresolved = "unresolved", "the next hop did not answer ARP or neighbour solicitations";
    /// Somebody says that a next hop, or he himself, has a link address that no other station can have.
    LinkAddress = "link-address",
        "an ARP or neighbour message claims a link address of everybody, of a group, of \
         nobody or of the node itself: forged";
    /// Too many packets wait for link addresses; one gave way.
    ResolverFull = "resolver-full" was "unresolved",
        "too many packets wait for the link addresses of next hops: a \
         flood to hosts that are not there";
    /// The packet is longer than the link or frame that it leaves by.
    TooBig = "too-big", "the packet exceeds the MTU of the link to its next hop, or a frame: send smaller capsules";
    /// The packet is longer than the buffers of the process that it is for.
    ProcessBuffer = "process-buffer" was "too-big", "the packet exceeds the buffers of the process that it is for";
    /// What a channel's modules have put together is longer than a frame.
    ModuleTooBig = "module-too-big" was "too-big",
        "pieces of a payload are longer together than a frame: the sender's \
         modules are not this channel's";
    /// No application is attached to the application port.
    NoApplication = "no-application", "a capsule was delivered to an application port that nobody has open";
    /// No application is attached to the PLAN port.
    NoPlanApplication = "no-plan-application" was "no-application", "a message was for a PLAN port that nobody has open";
    /// A channel has ended while its packet was on its way.
    ChannelGone = "channel-gone" was "no-application", "a channel ended while its packet was on its way to or from it";
    /// The environment that runs the domain is gone.
    HostGone = "host-gone" was "no-application", "the environment of a packet is gone, or its process was given up: see the log";
    /// The application does not read fast enough.
    ApplicationFull = "application-full", "an application does not read its capsules fast enough";
    /// The code is not here and nobody can be asked for it.
    CodeUnknown = "code-unknown", "the capsule's code is not here and there is no previous hop to ask: add the code first";
    /// The code could not be fetched in time.
    FetchTimeout = "fetch-timeout", "the previous hop did not deliver the capsule's code in time";
    /// What was left of the bound does not pay for fetching the code.
    FetchUnpaid = "fetch-unpaid",
        "the capsule's code is not here, and what was left of its bound does not pay for \
         fetching it: a larger bound, or send again, since the code has come this far";
    /// The record of its sends in the kernel half has been given to another packet.
    Forgotten = "forgotten",
        "a capsule took a second on its way up from the kernel half, and what its code had sent \
         there is not known any more: the node has too much to do";
    /// Too many capsules wait for code; the oldest was dropped.
    FetchFull = "fetch-full", "too many capsules wait for code: a flood of unknown names, or a slow previous hop";
    /// Code that capsules waited for could not be prepared now.
    Unprepared = "unprepared" was "fetch-full", "the compiler had no time for the code of a capsule, or too many codes are on their way";
    /// A neighbour sends capsules of unknown codes faster than its share.
    LookUpRate = "look-up-rate", "a neighbour sends capsules of unknown codes faster than the limit per neighbour (look_ups_per_second)";
    /// The code gave way in the table of codes while a capsule waited for it.
    CodeShare = "code-share",
        "codes of a neighbour, or of all strangers of a port together, gave way: they have \
         brought more of them than the table holds beside others' ([sizes] codes); status counts them for each";
    /// The fetched bytes do not have the name they were asked for by.
    FetchHash = "fetch-hash", "what a neighbour sent as code does not have the name that was asked for: a lying or broken neighbour";
    /// A fetch message that answers nothing this node asked.
    FetchSpoofed = "fetch-spoofed", "an answer to a code request that was not made, or not of this neighbour";
    /// A code request from somebody who is no neighbour.
    FetchForeign = "fetch-foreign", "a code request from an address that is no neighbour: answers go to neighbours only";
    /// A neighbour asks for more code than its share.
    FetchRate = "fetch-rate", "a neighbour asks for code faster than the limit per neighbour (fetch_bytes_per_second)";
    /// Too many requests for code wait for the store; one gave way.
    ServingFull = "serving-full" was "fetch-rate",
        "too many requests of neighbours wait for the store: a flood of \
         requests, or a slow disk";
    /// A neighbour asks for PLAN code by which no packet was sent to it.
    FetchUnowed = "fetch-unowed" was "fetch-rate", "a neighbour asks for a PLAN code that no packet to it has named, or asks again";
    /// A neighbour asks for PLAN code that is not here any more.
    FetchGone = "fetch-gone" was "code-unknown", "a neighbour asks for a PLAN code that this node has forgotten";
    /// The code breaks a rule, or its representation cannot run here.
    CodeRefused = "code-refused", "the code breaks a rule or needs what its principal may not use: see the log, or anode code check";
    /// The payload is shorter than the window the code declares.
    Window = "window", "the capsule's payload is shorter than the window its code declares";
    /// The code decided so.
    Code = "code", "the capsule's code decided to drop it";
    /// The code trapped.
    Trap = "trap", "the capsule's code failed (memory out of bounds, unreachable, division): a bug in the code";
    /// The calls of the code were too deep.
    Stack = "stack" was "trap",
        "the calls of the capsule's code were too deep for its stack: a function that calls itself has \
         to end sooner, as a loop does";
    /// The code used up its steps.
    Fuel = "fuel", "the capsule's code used more steps than one packet may";
    /// The code returned a verdict that does not exist.
    Verdict = "verdict", "the capsule's code returned a verdict that does not exist";
    /// The code put a foreign source address on a packet.
    Source = "source", "the capsule's code wrote a source address that is neither the packet's nor this node's";
    /// The domain has used up its share.
    Budget = "budget", "the domain of the code is over its budget of packets or steps per second";
    /// There is no room for a domain that would pay.
    NoDomain = "no-domain" was "budget", "the node has no room for another domain, which would pay for a packet";
    /// The code was removed because its domain stayed over its budget.
    Removed = "removed", "the code's domain stayed over its budget, so its role had the code removed; it is refused for a time";
    /// A port's output queue is full.
    QueueFull = "queue-full", "the output queue of a port is full: the link is slower than the traffic";
    /// A class of a port drops early.
    EarlyDrop = "early-drop", "a class of a port has many packets waiting, and drops some by chance (red) or as an extension says";
    /// Too many PLAN packets of this node wait for itself.
    LocalFull = "local-full" was "queue-full", "too many PLAN packets that this node sent to itself wait";
    /// The system would not send a frame.
    NotSent = "not-sent",
        "the system refused to send a frame: its interface is down or gone, a link carries less than \
         the port's mtu, or a firewall; see the log";
    /// No port is open yet.
    PortClosed = "port-closed" was "not-sent", "a frame was to leave before the ports were open";
    /// A frame that the kernel half has redirected did not arrive.
    Undelivered = "undelivered",
        "frames that the kernel half redirected did not arrive: an interface was down or its \
         other end full; see kernel.ports and docs/kernel-half.md";
    /// A frame that came in is longer than its port's largest packet.
    Oversized = "oversized",
        "a frame came in that is longer than its port's mtu, as segments are that were joined on \
         the way in: ethtool -K DEV gro off lro off, or a larger mtu";
    /// The system has dropped frames because the node did not take them in time.
    Missed = "missed",
        "frames came faster than the node took them from its sockets: it has too much to do, or too \
         small a share of the CPU; see missed of each port";
    /// A domain's memory pool has no room for a packet.
    MemoryFull = "memory-full" was "channel-full",
        "the memory pool of a domain has no room for a packet: the \
         environment holds too many, or memory_bytes is too small";
    /// The ring or the buffers of a process are full.
    ProcessFull = "process-full" was "channel-full", "a process does not take its packets fast enough: it hangs, or has too few buffers";
    /// A channel has sent all it may for now.
    Bandwidth = "bandwidth", "an outgoing channel has used up the bandwidth it may have";
    /// A process has put into its ring what means nothing.
    ProcessNonsense = "process-nonsense", "the process of an environment wrote into its ring what means nothing";
    /// A process sends to a channel that is gone or not its own.
    ProcessDenied = "process-denied" was "process-nonsense", "the process of an environment sent to a channel that is gone or not its own";
    /// Not all pieces of a message came in time.
    ReassemblyTimeout = "reassembly-timeout" was "reassembly",
        "pieces of a PLAN message or of a fragmented payload \
         did not all come in time: look for loss on the link";
    /// Too many messages are under assembly; one gave way.
    ReassemblyFull = "reassembly-full" was "reassembly",
        "too many PLAN messages or fragmented payloads are under \
         assembly: a neighbour sends too many";
    /// A PLAN evaluation ended with an error that the program did not handle.
    Evaluation = "evaluation",
        "a PLAN program ended with an exception it does not handle, or at a limit; its source \
         was told: see what its application printed";
    /// A PLAN packet waited too long for the outside.
    WaitTimeout = "wait-timeout" was "waiting",
        "a PLAN packet waited too long for the address of a name, the \
         judgement of a signature or a module: look at the resolver";
    /// Too many PLAN packets wait; one gave way.
    WaitFull = "wait-full" was "waiting", "too many PLAN packets wait for codes, names, judgements or modules";
    /// The node would have sent something of its own accord to an address that has not answered and has sent too little.
    Unanswered = "unanswered",
        "the node had more to say to an address than three times what came from there, and \
         nobody there has answered: a forged source, or an exchange that failed";
    /// A source is sent as many reports as it may be.
    ReportRate = "report-rate", "more PLAN packets of one source fail than it is told of: look at what its application printed";
    /// A port brings in more than its ceiling.
    IngressRate = "ingress-rate", "a port brings in more active packets than its ceiling";
    /// A neighbour, or all strangers of a port together, bring in more than their share.
    EntryShare = "entry-share",
        "a neighbour, or all strangers of a port together, want more than their share of the \
         worker or of bytes while others are there ([entry]): status counts it for each";
    /// Too many packets of a domain wait for the CPU.
    PathFull = "path-full", "more packets of a domain wait for the CPU than may: it wants more than its share, or the node is overloaded";
    /// Too many packets of a channel wait for the CPU.
    ChannelQueueFull = "channel-queue-full" was "path-full",
        "as many packets of a channel wait for the CPU as its \
         specification says (buffers)";
    /// Its domain ended while a packet was on its way.
    DomainEnded = "domain-ended" was "path-ended", "the domain of a packet ended before its turn";
    /// The code of a capsule went out of service while it was on its way.
    CodeGone = "code-gone" was "path-ended", "the code of a capsule went out of service before its turn; the next capsule finds it anew";
    /// Too many packets are on their way from one worker of the node to another.
    HandOver = "hand-over",
        "more packets came to a worker that only another worker of the node can go on with than that one takes: packets without \
         code here, of applications, or of channels of domains that are there ([cpu], anode domain move)";
    /// A worker of the node has panicked while it had a packet.
    WorkerPanic = "worker-panic",
        "a worker of the node has panicked while it had these packets, and has begun anew: a bug, please report it \
         with the line of the log that begins with the thread's name";
    /// A generation of a graph held a packet, and was replaced by one that has no place for it.
    GraphReplaced = "graph-replaced",
        "a graph was replaced while an engine held this packet that the next generation does not have, and it did not leave \
         within a second";
    /// A message about parts of graphs is wrong.
    MalformedPart = "malformed-part",
        "a neighbour sent a message about parts of graphs that is cut short or contradicts itself: look at the sender";
    /// A message about parts of graphs came from nobody who is known by a proof, or a packet from whom no graph has a part.
    PartForeign = "part-foreign",
        "a message about parts of graphs came without a neighbour's proof, or a packet came for a part that does not run here any more: \
         the node that has the graph says so too, and offers it again";
    /// A neighbour offers parts faster than this node reads them.
    PartRate = "part-rate",
        "a neighbour offers parts of graphs faster than this node reads their texts: it offers them again by itself";
    /// A packet of a graph whose role locks fields was to go to another place, and its headers cannot all be read.
    LockedFields = "locked-fields",
        "a packet was to go to another node or to an engine of an extension out of a graph whose role locks fields, and its headers cannot \
         all be read, as in a piece of a packet: put it together before, or let the graph send whole packets from their first header on";
    /// A packet on its way between parts of a graph could not be marshalled by what the text names for that.
    MarshalFailed = "marshal-failed",
        "a procedure of an extension that marshals packets between nodes has failed at a packet, or was given bytes that are none: it is \
         in the text of the graph behind the node, as @remote(NODE, EXTENSION/NAME); leave it out there, or mend the extension";
    /// Engines of a graph send a packet round and round.
    GraphCircle = "graph-circle",
        "engines of a graph send packets in a circle without end: lead one of its outputs out of it";
    /// An engine of a graph has thrown a packet away, or an output that it left by leads nowhere.
    GraphDropped = "graph-dropped",
        "an engine of a graph has thrown a packet away, had no room for it, or sent it by an output to which nothing is connected: \
         the engine's handlers say which and how many";
    /// An engine of an extension has failed at a packet.
    EngineFailed = "engine-failed",
        "an engine of an extension has trapped at a packet, used its fuel up, gave no packet for it, or the packet is longer than what \
         it takes: its handler `failed` counts them (anode graph read)";
}

impl Reason {
    /// Whether who has sent a packet here is told of this end. Not if its own program wanted it so, or tells of it, nor
    /// if it ended another packet than the one in hand.
    pub fn is_refusal(self) -> bool {
        !matches!(self, Reason::Code | Reason::Evaluation | Reason::WaitFull | Reason::ReportRate | Reason::Unanswered)
    }

    /// Whether a run of code that has ended without a verdict is meant: its place is known.
    pub fn is_of_run(self) -> bool {
        matches!(self, Reason::Trap | Reason::Stack | Reason::Fuel)
    }
}

/// Drops by reason. Most domains have none, so there are no counts before the first one.
#[derive(Clone, Debug, Default)]
pub struct Drops(Option<Box<Counts>>);

type Counts = [u64; Reason::ALL.len()];

const NO_DROPS: Counts = [0; Reason::ALL.len()];

impl PartialEq for Drops {
    fn eq(&self, other: &Drops) -> bool {
        self.counts() == other.counts()
    }
}

impl Eq for Drops {}

impl Drops {
    #[inline]
    fn counts(&self) -> &Counts {
        self.0.as_deref().unwrap_or(&NO_DROPS)
    }

    #[inline]
    fn counts_mut(&mut self) -> &mut Counts {
        self.0.get_or_insert_with(|| Box::new(NO_DROPS))
    }

    /// Counts one drop.
    #[inline]
    pub fn count(&mut self, reason: Reason) {
        self.counts_mut()[reason as usize] += 1;
    }

    /// Counts several drops.
    pub fn count_many(&mut self, reason: Reason, drops: u64) {
        if drops > 0 {
            self.counts_mut()[reason as usize] += drops;
        }
    }

    /// Adds the counts of others.
    pub fn add(&mut self, others: &Drops) {
        let Some(others) = &others.0 else { return };
        for (sum, count) in self.counts_mut().iter_mut().zip(&**others) {
            *sum += count;
        }
    }

    /// Drops under this reason so far.
    pub fn of(&self, reason: Reason) -> u64 {
        self.counts()[reason as usize]
    }

    /// All drops so far.
    pub fn total(&self) -> u64 {
        self.counts().iter().sum()
    }

    /// The reasons that have happened, with their counts.
    pub fn happened(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.iter().copied().zip(*self.counts()).filter(|&(_, count)| count > 0)
    }
}

impl serde::Serialize for Drops {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.happened().map(|(reason, count)| (reason.name(), count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_help_is_one_line() {
        let mut names: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::ALL.len());
        assert!(Reason::ALL.iter().all(|reason| !reason.help().is_empty() && !reason.help().contains('\n')));
    }

    #[test]
    fn a_drop_moves_one_counter() {
        let mut drops = Drops::default();
        drops.count(Reason::Bound);
        assert_eq!(drops.happened().collect::<Vec<_>>(), [(Reason::Bound, 1)]);
        assert_eq!(drops.total(), 1);
    }
}
