//! Code by HTTP: an extension has it fetched from real servers, good ones and bad ones; a process in a jail talks to them.

use crate::held::printed;
use crate::single::{ANODE, Node};
use crate::wait;
use anode::code::bundle::{Bundle, Kind};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// A bundle of some code.
fn bundle(title: &str) -> Bundle {
    let text = "(module (memory (export \"memory\") 1) (func (export \"an_process\") (param i32 i32 i32) (result i32) (i32.const 0)))";
    Bundle::build(title, 0, &[(Kind::Wasm, wat::parse_str(text).unwrap().into())], None).unwrap()
}

/// Lets everybody have an answer who connects; `whole`: and no more, else the connection stays as it is.
fn serve(answer: impl Fn(&str) -> Vec<u8> + Send + 'static, whole: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream: TcpStream = stream.unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).unwrap();
            let path = String::from_utf8_lossy(&request[..length]);
            // Whoever has heard enough has gone.
            let _ = stream.write_all(&answer(path.split(' ').nth(1).unwrap_or("")));
            if !whole {
                kept.push(stream);
            }
        }
    });
    at
}

fn answer(head: &str, body: &[u8]) -> Vec<u8> {
    [b"HTTP/1.1 ", head.as_bytes(), b"\r\n\r\n", body].concat()
}

/// A web server of somebody else's, which ends with the test however that ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A node with `http`, and what it says.
struct Fetching(Node);

impl Fetching {
    fn call(&self, words: &[&str]) -> String {
        let run = self.0.run_dir().display().to_string();
        String::from_utf8(printed(&[&["node", "call", &run], words].concat())).unwrap().trim().to_owned()
    }

    /// What becomes of a fetch.
    fn fetch(&self, url: &str, name: &str) -> String {
        let number = self.call(&["http.fetch", url, name]);
        self.end_of(&number)
    }

    fn end_of(&self, number: &str) -> String {
        self.0.until(|| Some(self.call(&["http.state", number])).filter(|words| !words.contains("fetching")))
    }

    fn counts(&self) -> Value {
        self.0.control().status().unwrap()["http"].clone()
    }
}

/// Such a node with these hosts, named as they are and where they are.
fn start(hosts: &[(&str, &str)], more: &str) -> Fetching {
    let hosts: Vec<_> = hosts.iter().map(|(name, at)| format!("{name:?} = {at:?}")).collect();
    let node = Node::start(&format!("[http]\nhosts = {{ {} }}\n{more}", hosts.join(", ")));
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps/extensions/http.wat");
    printed(&["extension", "load", node.run_dir().to_str().unwrap(), module.to_str().unwrap()]);
    Fetching(node)
}

#[test]
fn code_is_fetched_from_a_real_server_and_is_in_the_store_if_it_has_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let (code, other) = (bundle("fetched"), bundle("other"));
    std::fs::write(folder.path().join("code.anb"), code.write()).unwrap();
    std::fs::write(folder.path().join("no.anb"), "no bundle").unwrap();
    let said = std::fs::File::create(folder.path().join("said")).unwrap();
    let mut command = Command::new("python3");
    command.args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]).current_dir(folder.path());
    let Ok(server) = command.stdout(said).stderr(Stdio::null()).spawn().map(Server) else {
        assert!(std::env::var_os("CI").is_none(), "continuous integration must have python3");
        return println!("SKIPPED: there is no python3");
    };
    let port = wait::text(&folder.path().join("said"), Some(&server.0), |text| {
        Some(text.split_once(" port ")?.1.split(' ').next()?.to_owned())
    });
    let at = format!("127.0.0.1:{port}");
    let there = start(&[("mirror.example", &at), (&at, &at)], "");
    let (name, another) = (code.name().to_string(), other.name().to_string());
    let url = format!("http://{at}/code.anb");
    let store = there.0.dir.path().join("store").display().to_string();
    let known = || String::from_utf8(printed(&["code", "ls", "--store", &store])).unwrap().contains("fetched");
    for (url, name, why) in [
        (&*url, &*another, format!("failed: what came is the code {name}")),
        ("http://mirror.example/none.anb", &name, "failed: the server says 404".into()),
        ("http://mirror.example/no.anb", &name, "failed: what came is no bundle".into()),
        ("http://other.example/code.anb", &name, "refused: [http] hosts has no \"other.example\"".into()),
        ("http://169.254.169.254/code.anb", &name, "refused: [http] hosts has no \"169.254.169.254\"".into()),
        ("https://mirror.example/code.anb", &name, "refused: only http:// is fetched from".into()),
        (&url, "abc", "refused: 'abc'".into()),
    ] {
        let words = there.fetch(url, name);
        assert!(words.starts_with(&why), "{url} {name}: {words}\n{}", there.0.log());
        assert!(!known(), "nothing is in the store that was not asked for");
    }
    let stored = format!("stored: {name}, {} bytes", code.write().len());
    assert_eq!(there.fetch("http://mirror.example/code.anb", &name), stored);
    assert_eq!((there.call(&["http.last"]), there.fetch(&url, &name)), (stored.clone(), stored));
    assert!(known());
    let counts = there.counts();
    let of = |name: &str| counts[name].as_u64().unwrap();
    assert_eq!((of("begun"), of("stored"), of("refused"), of("failed")), (9, 2, 4, 3), "{counts}");
    drop(server);
    assert!(there.fetch(&url, &name).starts_with("failed: the server cannot be reached"), "{}", there.0.log());
}

#[test]
fn bad_servers_cost_one_fetch_each_and_the_node_goes_on() {
    let code = bundle("fetched");
    let (name, bytes) = (code.name().to_string(), Arc::new(code.write()));
    let large = serve(|_| answer("200 OK", &vec![0; (1 << 20) + 9]), true);
    let (whole, half) = (bytes.clone(), bytes.clone());
    let dies =
        serve(move |_| answer(&format!("200 OK\r\nContent-Length: {}", half.len()), &half[..half.len() / 2]), true);
    let slow = serve(|_| b"HTTP/1.1 200 OK\r\n".to_vec(), false);
    let moved = serve(
        move |path| match path {
            "/loop" => answer("302 Found\r\nLocation: /loop", b""),
            "/away" => answer("302 Found\r\nLocation: http://127.0.0.1:1/x", b""),
            "/there" => answer("301 Moved\r\nLocation: /code", b""),
            _ => answer("200 OK", &whole),
        },
        true,
    );
    let noise = serve(|_| vec![0xff; 1 << 16], true);
    let hosts = [("large", &*large), ("dies", &dies), ("slow", &slow), ("moved", &moved), ("noise", &noise)];
    let there = start(&hosts, "wall_ms = 1500\n");
    let slow: Vec<_> = (0..4).map(|_| there.call(&["http.fetch", "http://slow/", &name])).collect();
    // All places are taken: whoever comes now waits, and of those not many.
    let more: Vec<_> = (0..18).map(|_| there.call(&["http.fetch", "http://slow/", &name])).collect();
    let refused =
        more.iter().filter(|number| there.call(&["http.state", number]).starts_with("refused: 16 fetches wait"));
    assert!(refused.count() >= 2);
    for number in &slow {
        assert_eq!(there.end_of(number), "failed: the server was too slow: [http] wall_ms = 1500");
    }
    let of = |what: &str| there.call(&["http.fetch", &format!("http://{what}"), &name]);
    let run = there.0.run_dir().display().to_string();
    // The others in the queue fail as well, in their time.
    more.iter().for_each(|number| drop(there.end_of(number)));
    for (what, why) in [
        ("large/", "failed: it is longer than 1048576 bytes"),
        ("dies/", "failed: the server broke off after"),
        ("moved/loop", "failed: more than 4 redirections"),
        ("moved/away", "refused: [http] hosts has no \"127.0.0.1:1\""),
        ("noise/", "failed: the server does not speak HTTP"),
        ("moved/there", "stored: "),
    ] {
        let words = there.end_of(&of(what));
        assert!(words.starts_with(why), "{what}: {words}\n{}", there.0.log());
    }
    let ping = Command::new(ANODE).args(["ping", "10.9.9.1", "--count", "1", "--node", &run]).output().unwrap();
    assert!(ping.status.success(), "{}", String::from_utf8_lossy(&ping.stderr));
    let counts = there.counts();
    assert_eq!((counts["stored"].as_u64(), counts["redirected"].as_u64()), (Some(1), Some(7)), "{counts}");
}

#[test]
fn a_node_without_hosts_fetches_nothing_and_packets_never_do() {
    let node = Node::start("");
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps/extensions/http.wat");
    printed(&["extension", "load", node.run_dir().to_str().unwrap(), module.to_str().unwrap()]);
    let there = Fetching(node);
    let words = there.fetch("http://a/", &bundle("x").name().to_string());
    assert_eq!(words, "refused: this node's configuration has no [http] hosts");
}
