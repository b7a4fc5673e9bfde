//! What one evaluation does takes place in the order in which it does it; aborts, handlers and tries that were in vain
//! are paid from what is left.

use crate::net::{Net, host, network, value};
use anode::apps::plan::Script;
use anode::core::reason::Reason;
use anode::ee::plan::{Account, Config};
use anode::sim::{Change, Line, SECOND};
use plan::packet::{Header, Packet};
use plan::value::Host;

fn account(net: &Net, node: usize) -> Account {
    net.sim.status(node).unwrap().plan.unwrap().account
}

fn script(source: &str) -> Script {
    Script::new("order", source).unwrap()
}

#[test]
fn a_port_that_was_closed_takes_nothing_and_an_applications_own_is_not_closed() {
    let source = "
fun tried(port : port) : string = try (deliver(port, 1); \"delivered\") handle BadPort => \"bad port\"
fun f() : unit =
  let val port = openPort(hd thisHost(), 100) in
    (print(tried(port)); closePort(port); print(tried(port)); closePort(getPort()); print(tried(getPort())))
  end";
    let mut net = Net::line(2, Line::default());
    assert_eq!(net.call(0, &script(source), "f()", 1), ["delivered", "bad port", "delivered"]);
    // A connection of an evaluation before, closed by a later one.
    let source = "
fun open() : unit = put(\"p\", getSession(), openPort(hd thisHost(), 100), 60)
fun use() : unit =
  let val port = get(\"p\", getSession()) in
    (closePort(port); print(try (deliver(port, 1); \"delivered\") handle BadPort => \"bad port\"))
  end";
    assert!(net.call(0, &script(source), "open()", 1).is_empty());
    assert_eq!(net.call(0, &script(source), "use()", 1), ["bad port"]);
}

#[test]
fn a_flow_that_was_set_is_taken_by_what_follows() {
    // Two ways from 0 to 3: by 1 and by 2.
    let mut net = Net::with(&[(0, 1), (1, 3), (0, 2), (2, 3)], Line::default(), Config::default());
    let source = "
fun passed(by : host) : unit = print(by)
fun there(home : host) : unit = OnRemote(|passed|(getPrevious()), home, getRB(), defaultRoute)
fun step(by : host, link : host * dev) : host = (if fst link = by then setFlow(7, by, snd link, 60) else (); by)
fun go(home : host, by : host, to : host) : unit =
  (foldl(step, by, getNeighbors()); print(fst flowRoute(to)); OnRemote(|there|(home), to, getRB(), flowRoute))
fun forget(by : host, to : host) : unit =
  let fun each(way : host, link : host * dev) : host = (setFlow(7, fst link, snd link, 0); way)
  in (foldl(each, by, getNeighbors()); print(fst flowRoute(to) = fst defaultRoute(to))) end";
    let script = script(source);
    for by in [1, 2, 1] {
        let header = Header { flow: 7, ..Header::injected(Host::default(), 9) };
        let chunk = script.chunk("go", [value(0), value(by), value(3)]).unwrap();
        net.inject_packet(0, Packet { header, chunk });
        net.sim.run_for(SECOND);
        assert_eq!(net.sim.take_printed(), [host(by).to_string(), host(by).to_string()], "both by the way just set");
    }
    let header = Header { flow: 7, ..Header::injected(Host::default(), 9) };
    net.inject_packet(0, Packet { header, chunk: script.chunk("forget", [value(1), value(3)]).unwrap() });
    net.sim.run_for(SECOND);
    assert_eq!(net.sim.take_printed(), ["true"], "a way for no time is none");
}

#[test]
fn a_meter_that_was_opened_shows_what_was_counted_since() {
    let mut lines = network(&[(0, 1)], Line::default());
    lines.plan.restricted.clear();
    let mut net = Net::new(lines, 1);
    let source = "
fun shown() : unit = print(try bandwidthReport(\"m\") handle NotFound => (~1, 0, 0))
fun f() : unit =
  (shown(); bandwidthReceive(\"m\", 60); shown(); bandwidthCount(\"m\", makeBlob(\"four\")); shown();
   bandwidthReceive(\"m\", 60); shown(); bandwidthReceive(\"m\", 0); shown())";
    let expected = ["(~1, 0, 0)", "(0, 0, 0)", "(1, 4, 0)", "(0, 0, 0)", "(~1, 0, 0)"];
    assert_eq!(net.call(0, &script(source), "f()", 1), expected);
}

const ABORTS: &str = "
fun lost(what : string) : unit = print(what)
fun there(home : host) : unit = (abort(|lost|(\"first\")); abort(|lost|(\"second\")))
fun spent(home : host) : unit = (OnRemote(|there|(home), hd thisHost(), getRB(), defaultRoute); abort(|lost|(\"none\")))
fun quiet() : unit = ()
fun raises(n : int) : unit = (OnRemote(|quiet|(), hd thisHost(), getRB(), defaultRoute); print(1 / n))
fun go(home : host, to : host) : unit = OnRemote(|there|(home), to, getRB(), defaultRoute)
fun use(home : host, to : host) : unit = OnRemote(|spent|(home), to, getRB(), defaultRoute)
fun fail(home : host, to : host) : unit = OnRemote(|raises|(0), to, getRB(), defaultRoute)";

#[test]
fn an_abort_is_paid_from_what_is_left_and_without_that_is_counted() {
    let script = script(ABORTS);
    let mut net = Net::line(3, Line::default());
    let call = |name: &str| format!("{name}(hd thisHost(), getHostByName(\"n2\"))");
    assert_eq!(net.call(0, &script, &call("go"), 9), ["first"], "it takes all, and the second has nothing");
    assert_eq!((account(&net, 2).unreported, account(&net, 2).failed), (1, 0), "the program goes on");
    // All was given away before: nothing goes home but what the packet to oneself could pay for.
    assert_eq!(net.call(0, &script, &call("use"), 9), ["first"]);
    assert_eq!((account(&net, 2).unreported, account(&net, 2).failed), (3, 0));
    // A failure of a program that has nothing left is counted, and nobody is told.
    let before = (account(&net, 2).unreported, net.audit().reports);
    assert_eq!(net.call(0, &script, &call("fail"), 9), Vec::<String>::new());
    let drops = net.sim.node(2).unwrap().drops();
    assert_eq!((drops.of(Reason::Evaluation), account(&net, 2).unreported), (1, before.0 + 1));
    assert_eq!(net.audit().reports, before.1);
    net.audit();
}

#[test]
fn a_handler_is_called_with_what_is_left() {
    let source = "
fun there(n : int) : unit = print(100 / n)
fun go(to : host, n : int) : unit = OnRemote(|there|(n), to, getRB(), defaultRoute)";
    let mut net = Net::line(3, Line::default());
    let said = |net: &mut Net, bound| net.call(0, &script(source), "go(getHostByName(\"n2\"), 0)", bound);
    assert!(said(&mut net, 9)[0].contains("raised DivByZero on 10.0.0.3"));
    // Two hops there, and as many back: one too few.
    for bound in [2, 3] {
        let before = account(&net, 2).unreported + account(&net, 1).unreported;
        assert_eq!(said(&mut net, bound), Vec::<String>::new(), "{bound}");
        let drops = |node: usize| net.sim.status(node).unwrap().drops.of(Reason::Bound);
        let unpaid = account(&net, 2).unreported + account(&net, 1).unreported - before;
        assert!(unpaid + drops(1) >= 1, "{bound}");
        net.audit();
    }
}

const RELIABLE: &str = "
fun arrived() : unit = ()
fun send(to : host) : unit = RetransOnRemote(|arrived|(), to, 4, defaultRoute, 3, 200)
fun once(to : host) : unit = RetransOnRemote(|arrived|(), to, 4, defaultRoute, 1, 200)
fun from(by : host, to : host, n : int) : unit =
  if n = 1 then OnRemote(|once|(to), by, getRB(), defaultRoute) else OnRemote(|send|(to), by, getRB(), defaultRoute)";

#[test]
fn tries_that_were_in_vain_reach_the_handler() {
    let script = script(RELIABLE);
    let mut net = Net::line(4, Line::default());
    let call = |n: usize| format!("from(getHostByName(\"n1\"), getHostByName(\"n3\"), {n})");
    // While all is well, nobody hears of it.
    for n in [1, 3] {
        assert_eq!(net.call(0, &script, &call(n), 40), Vec::<String>::new());
    }
    assert_eq!((account(&net, 1).given_up, net.audit().held), (0, 0));
    let link = net.sim.network().links.iter().position(|link| (link.a, link.b) == (2, 3)).unwrap();
    net.sim.change(Change::Cut { link });
    for n in [1, 3] {
        let said = net.call(0, &script, &call(n), 40);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].ends_with("arrived[]> raised Unacknowledged on 10.0.0.2"), "{said:?}");
    }
    assert_eq!((account(&net, 1).given_up, net.audit().held), (2, 0));
    // At the source's own node the word takes no hop.
    let said = net.call(0, &script, "send(getHostByName(\"n3\"))", 12);
    assert!(said[0].contains("raised Unacknowledged on 10.0.0.1"), "{said:?}");
    // Away from home and with nothing left it is counted, and not sent.
    let before = account(&net, 1).unreported;
    let twelve = "from(getHostByName(\"n1\"), getHostByName(\"n3\"), 3)";
    assert_eq!(net.call(0, &script, twelve, 13), Vec::<String>::new());
    assert_eq!((account(&net, 1).unreported - before, account(&net, 1).given_up, net.audit().held), (1, 3, 0));
}

#[test]
fn what_the_node_keeps_is_told_in_bytes() {
    let source = "
fun told(lines : (string * int) list) : unit = print(lines)
fun f() : unit = (put(\"x\", getSession(), \"0123456789abcdef\", 60); told(memoryUse()))";
    let mut net = Net::line(2, Line::default());
    let said = net.call(0, &script(source), "f()", 1).concat();
    for figure in
        ["\"code-bytes\", ", "\"code-memory\", ", "\"value-bytes\", ", "\"job-bytes\", 0", "\"object-bytes\", "]
    {
        assert!(said.contains(figure), "{figure} in {said}");
    }
    assert!(!said.contains("\"value-bytes\", 0)") && !said.contains("\"code-bytes\", 0)"), "{said}");
}
