//! The time of day jumps while a node runs, a year forwards and backwards: what is measured goes on as before, and what is dated is
//! judged by the time that it is then.
//!
//! The node's `clock_gettime` is this test's, which is loaded before libc: CLOCK_REALTIME is off by what a shared file says. No other
//! process has that, and all clocks of the node but this one are the kernel's.

use crate::keys::{Pair, forward};
use crate::single::{ANODE, Node, anode, write_config};
use crate::wait;
use anode::code::bundle::{Bundle, Kind};
use anode::manage::client::Control;
use anode::trust::{Credential, CredentialSet, PrincipalKey, Restrictions, Terms};
use model::health::{Health, State};
use model::status::{Code, Status};
use model::wish::Ran;
use model::{Ask, wish::Standing, wish::Wish};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const DAY: i64 = 86_400;
const YEAR: i64 = 365 * DAY;

/// Adds the seconds of the file `JUMP` to CLOCK_REALTIME.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
static int (*real)(clockid_t, struct timespec *);
static const volatile long long *jump;
__attribute__((constructor)) static void begin(void)
{
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int file = open(getenv("JUMP"), O_RDONLY | O_CLOEXEC);
    void *at = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    if (at != MAP_FAILED)
        jump = at;
}
int clock_gettime(clockid_t clock, struct timespec *now)
{
    int done = real(clock, now);
    if (!done && jump && clock == CLOCK_REALTIME)
        now->tv_sec += *jump;
    return done;
}
"#;

/// What the time of day of processes is off by.
pub struct Clock {
    seconds: File,
    /// What they find in their environment.
    variables: [(&'static str, PathBuf); 2],
}

impl Clock {
    /// One whose files are in a directory.
    pub fn within(dir: &Path) -> Clock {
        let at = |name: &str| dir.join(name);
        fs::write(at("shim.c"), SHIM).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O2", "-o"]).arg(at("shim.so")).arg(at("shim.c")).arg("-ldl");
        assert!(cc.status().unwrap().success());
        let seconds = File::options().read(true).write(true).create_new(true).open(at("jump")).unwrap();
        seconds.set_len(8).unwrap();
        Clock { seconds, variables: [("LD_PRELOAD", at("shim.so")), ("JUMP", at("jump"))] }
    }

    /// A process of this command has it.
    pub fn give(&self, command: &mut Command) {
        command.envs(self.variables.iter().map(|(name, path)| (name, path)));
    }

    /// From now on it is so many seconds later than it is.
    pub fn jump(&self, seconds: i64) {
        self.seconds.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }
}

/// A node with such a clock.
struct Jumpy {
    node: Node,
    clock: Clock,
}

impl Jumpy {
    fn start(more: &str) -> Jumpy {
        crate::gate::pass();
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::within(dir.path());
        Jumpy::start_in(dir, clock, more)
    }

    fn start_in(dir: TempDir, clock: Clock, more: &str) -> Jumpy {
        let file = write_config(dir.path(), more);
        let mut command = anode(&["node", "run"], &file);
        clock.give(&mut command);
        let log = File::create(dir.path().join("log")).unwrap();
        let process = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let node = Node { process, dir };
        wait::control(&node.run_dir(), Some(&node.process), || node.log());
        Jumpy { node, clock }
    }

    /// From now on it is so many seconds later than it is.
    fn jump(&self, seconds: i64) {
        self.clock.jump(seconds);
    }

    /// The same node, started again with its store.
    fn again(self, more: &str) -> Jumpy {
        let Jumpy { node, clock } = self;
        Jumpy::start_in(node.down(), clock, more)
    }

    fn status(&self) -> Status {
        self.node.control().asked(&Ask::Status).unwrap()
    }

    fn standing(&self) -> Standing {
        self.status().configuration.unwrap()
    }

    fn apply(&self, packets: u64, within: &str) {
        let path = self.node.dir.path().join("next.toml");
        write_config(self.node.dir.path(), &role(packets));
        fs::rename(self.node.dir.path().join("node.toml"), &path).unwrap();
        let output = anode(&["node", "apply"], &path).args(["--confirm-within", within]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn history(&self) -> Vec<Ran> {
        self.node.control().asked(&Ask::Configure { what: Wish::History }).unwrap()
    }

    /// The code of a bundle, once a capsule of it has been judged.
    fn judged(&self, bundle: &Bundle) -> Code {
        let file = self.node.dir.path().join("code.anb");
        fs::write(&file, bundle.write()).unwrap();
        let mut command = Command::new(ANODE);
        command.args(["capsule", "send"]).arg(&file).args(["10.9.9.1", "--timeout", "0", "--node"]);
        // Nothing comes back.
        command.arg(self.node.run_dir()).output().unwrap();
        let name = bundle.name().to_string();
        self.node.until(|| {
            let code = self.status().codes.into_iter().find(|code| code.name == name)?;
            (code.state == "ready").then_some(code)
        })
    }
}

fn role(packets: u64) -> String {
    format!("[[role]]\nname = \"guests\"\nlimits = {{ packets_per_second = {packets} }}\n")
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn what_is_measured_goes_on_while_the_time_of_day_jumps() {
    let jumpy = Jumpy::start(&role(1000));
    jumpy.apply(7, "1h");
    for seconds in [YEAR, -YEAR] {
        jumpy.jump(seconds);
        let left = jumpy.standing().unconfirmed_ms.unwrap();
        assert!((3_000_000..=3_600_000).contains(&left), "{left} ms are left, whatever time it is");
        let status = jumpy.status();
        assert!(status.uptime_s < 3600, "{} s", status.uptime_s);
        let health: Health = jumpy.node.control().asked(&Ask::Health).unwrap();
        let answers = health.checks.iter().find(|check| check.name == "worker-answers").unwrap();
        assert_eq!(answers.state, State::Healthy, "{health:?}");
    }
    let number = jumpy.standing().number.unwrap();
    assert!(jumpy.node.anode(&["node", "confirm", &number.to_string()]).0);
    // A day later, and then a year earlier: neither hastens nor delays the way back.
    jumpy.jump(DAY);
    jumpy.apply(8, "300ms");
    jumpy.jump(-YEAR);
    jumpy.node.until(|| (jumpy.standing().reverted == 1).then_some(()));
    let all = jumpy.history();
    let [given, back] = &all[all.len() - 2..] else { panic!("two") };
    assert!(given.number < back.number, "the order is that of numbers: {all:?}");
    assert!(given.unix_s > now_s() && back.unix_s < now_s(), "a date is what time it was: {all:?}");
    let (done, said) = jumpy.node.anode(&["node", "history"]);
    assert!(done && said.lines().count() >= all.len(), "{said}");
    jumpy.node.down();
}

/// Code whose author may act as guest for an hour before and after now; `number` makes it another one.
fn dated(root: &PrincipalKey, number: u32) -> Bundle {
    let author = PrincipalKey::from_seed([2; 32]);
    let text = format!(
        r#"(module (memory (export "memory") 1024 1024 (pagesize 1)) (global (export "an_arena") i32 (i32.const 0))
                (func (export "capsule") (param i32 i32) (result i32) (drop (i32.const {number})) i32.const 0))"#
    );
    let code = (Kind::Wasm, wat::parse_str(text).unwrap().into());
    let mut bundle = Bundle::build("dated", 0, &[code], Some(&author)).unwrap();
    let (from, until) = (Some(now_s() - 3600), Some(now_s() + 3600));
    let checks = Restrictions { from, until, ..Restrictions::default() };
    let terms = Terms { principal: author.id(), role: "guest".into(), checks };
    let credential = Credential::grant(root, &terms).unwrap().bind(&bundle.name()).unwrap();
    let set = CredentialSet { code: bundle.name(), credentials: vec![credential] };
    bundle.add_credentials(set.encode().into()).unwrap();
    bundle
}

/// The role of who acts for a root's guests.
fn guest(root: &PrincipalKey) -> String {
    format!("[[role]]\nname = \"guest\"\ntrusts = [\"{}\"]\n", root.id())
}

fn counts(code: &Code, counts: bool, seconds: i64) {
    let role = if counts { "guest" } else { "anyone" };
    assert_eq!(code.role.as_deref(), Some(role), "{seconds} s off: {code:?}");
    assert_eq!(code.credential_refused.is_none(), counts, "{seconds} s off: {code:?}");
}

#[test]
fn a_credential_counts_by_the_time_that_it_is_when_code_comes() {
    let root = PrincipalKey::from_seed([1; 32]);
    let jumpy = Jumpy::start(&guest(&root));
    for (number, (seconds, wanted)) in (1..).zip([(0, true), (YEAR, false), (0, true), (-YEAR, false), (0, true)]) {
        jumpy.jump(seconds);
        counts(&jumpy.judged(&dated(&root, number)), wanted, seconds);
    }
    jumpy.node.down();
}

#[test]
fn code_that_a_store_has_is_judged_anew_by_the_time_of_the_start() {
    let root = PrincipalKey::from_seed([1; 32]);
    let (mut jumpy, bundle) = (Jumpy::start(&guest(&root)), dated(&root, 1));
    counts(&jumpy.judged(&bundle), true, 0);
    for (seconds, wanted) in [(YEAR, false), (0, true), (-YEAR, false), (0, true)] {
        jumpy.jump(seconds);
        jumpy = jumpy.again(&guest(&root));
        counts(&jumpy.judged(&bundle), wanted, seconds);
    }
    jumpy.node.down();
}

/// Two nodes with a common secret, each of which demands proofs, and the clock of each.
fn proving() -> (Pair, [Clock; 2]) {
    let mut pair = Pair::new();
    let clocks = [0, 1].map(|at| {
        fs::create_dir(pair.path(&format!("clock{at}"))).unwrap();
        Clock::within(&pair.path(&format!("clock{at}")))
    });
    for at in [0, 1] {
        pair.more[at] = (format!(", keys = [{:?}]", pair.path("link.key")), "demand = [\"mac\"]".into());
    }
    (pair, clocks)
}

#[test]
fn proofs_of_neighbours_that_run_count_whatever_their_clocks_show() {
    let (mut pair, clocks) = proving();
    (0..2).for_each(|at| pair.start_with(at, |command| clocks[at].give(command)));
    let code = forward(1, None);
    for at in [0, 1] {
        Control::connect(&pair.dir(at)).unwrap().add_code(&code).unwrap();
    }
    for (at, seconds) in [(0, YEAR), (1, -YEAR), (0, -YEAR), (1, YEAR), (0, 0), (1, 0)] {
        clocks[at].jump(seconds);
        assert!(pair.send(0, &code, true) && pair.send(1, &code, true), "node {at} {seconds} s off");
    }
    for at in [0, 1] {
        assert_eq!([pair.dropped(at, "mac-replayed"), pair.dropped(at, "unauthenticated")], [0, 0]);
    }
}

#[test]
fn a_node_that_starts_a_year_ahead_shuts_its_neighbour_out_counts_that_and_lets_it_in_when_clocks_are_right() {
    let (mut pair, clocks) = proving();
    // The other one hears nothing of the year ahead: it would take that for the time from then on.
    pair.more.iter_mut().for_each(|(_, port)| *port += "\nhello = false");
    (0..2).for_each(|at| pair.start_with(at, |command| clocks[at].give(command)));
    let code = forward(1, None);
    Control::connect(&pair.dir(0)).unwrap().add_code(&code).unwrap();
    assert!(pair.send(0, &code, true));
    pair.kill(1);
    clocks[1].jump(YEAR);
    pair.start_with(1, |command| clocks[1].give(command));
    // Each is from before the start, by the clock of that node.
    pair.send(0, &code, false);
    pair.until(1, || (pair.dropped(1, "mac-replayed") > 0).then_some(()));
    pair.kill(1);
    clocks[1].jump(0);
    pair.start_with(1, |command| clocks[1].give(command));
    assert!(pair.send(0, &code, true));
    assert_eq!(pair.dropped(1, "mac-replayed"), 0);
}

/// The shim is there: without it nothing here would jump.
#[test]
fn the_time_of_day_of_a_node_is_what_the_test_says() {
    let jumpy = Jumpy::start(&role(1000));
    jumpy.jump(YEAR);
    jumpy.apply(7, "1h");
    let given = jumpy.history().pop().unwrap();
    assert!(given.unix_s > now_s() + YEAR as u64 - 3600 && Path::new(&given.source).is_absolute(), "{given:?}");
    jumpy.node.down();
}
