//! Which graphs have a form in the kernel, and why others have none.

use super::{FusedPart, Fusion, GraphWords, plan};
use crate::contract::plan::{FusedBlock, FusedEnd, FusedKey, FusedNext, FusedStep, KernelPlan};
use crate::graph::engines;
use crate::graph::load::load;
use std::sync::{Arc, Mutex};

fn fused(text: &str) -> Result<Fusion, String> {
    let graph = load(text, &[]).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
    plan(&graph, false, u32::from)
}

/// A graph around one engine.
fn around(engine: &str) -> String {
    format!("FromDevice(a) -> {engine} -> Queue -> ToDevice(b);")
}

#[test]
fn the_engines_of_a_router_of_one_way_are_one_program() {
    let text = "FromDevice(a) -> c :: Counter -> Paint(3) -> k :: CheckPaint(3) -> Strip(14) -> CheckIPHeader -> DecIPTTL \
                -> EtherEncap(0x800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> Queue -> ToDevice(b); k [1] -> Discard;";
    let Fusion { plan, engines, .. } = fused(text).unwrap();
    assert!(plan.is_sound());
    assert_eq!((plan.entries.len(), &plan.exits[..]), (1, &[1][..]));
    // Packets of the other paint do not come.
    assert_eq!(engines, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let steps: Vec<_> = plan.blocks.iter().flat_map(|block| &block.steps).collect();
    assert!(steps.contains(&&FusedStep::Trim) && steps.contains(&&FusedStep::SpendHop));
}

#[test]
fn what_has_no_form_is_named_with_its_cause() {
    for (text, why) in [
        ("FromDevice(a) -> Queue -> s :: Shaper(9) -> ToDevice(b);".to_owned(), "s :: Shaper has no form there"),
        (around("t :: Tee(1)"), "t :: Tee has no form there"),
        (around("Unstrip(2)"), "it puts 2 bytes in front, where 0 were taken off"),
        (around("Strip(40)"), "it takes off more than the first 34 bytes"),
        (around("Strip(34)"), "what leaves may have no whole Ethernet header"),
        (
            around("Strip(20) -> Unstrip(4) -> EtherEncap(0x800, 02:00:00:00:00:01, 02:00:00:00:00:02)"),
            "writes over the IP",
        ),
        (around("CheckIPHeader"), "an IP header 0 bytes behind the frame's beginning"),
        (around("MarkIPHeader(20) -> DecIPTTL"), "it looks for an IP header 20 bytes behind"),
        (
            "FromDevice(a) -> Paint(255) -> p :: PaintSwitch; p [0] -> Discard; p [1] -> Discard;".to_owned(),
            "p :: PaintSwitch: packets of paint 255 are copied",
        ),
        (around("Queue -> u :: Unqueue"), "u :: Unqueue has no form there"),
        (around("Queue(0) -> u :: Unqueue"), "it has no room for any packet"),
        ("FromDevice(a) -> Discard; FromDevice(a) -> Discard;".to_owned(), "come in at two places"),
        ("Idle -> Discard;".to_owned(), "nothing comes in by a device"),
        (around("IPClassifier(udp)"), "it looks for an IP header 0 bytes behind"),
        (around("Paint(2) -> t :: PaintTee(2); t [1] -> Discard; t"), "packets of paint 2 are copied"),
        (around("HostEtherFilter(02:00:00:00:00:01, DROP_OWN true)"), "with DROP_OWN it has none"),
        (around("Strip(4) -> HostEtherFilter(02:00:00:00:00:01)"), "no link addresses are 4 bytes behind"),
        (
            {
                let routes: Vec<_> = (0..65).map(|net| format!("10.{net}.0.0/16 0")).collect();
                around(&format!("MarkIPHeader(14) -> LinearIPLookup({})", routes.join(", ")))
            },
            "it has more than 64 routes",
        ),
        (around("GetIPAddress(2)"), "it looks at byte 2 of the frame, where no address is"),
        (around("GetIPAddress(29)"), "byte 29 of the frame"),
    ] {
        let graph = load(&text, &[]).unwrap_or_else(|wrong| panic!("{text}: {wrong:?}"));
        let said = plan(&graph, false, u32::from).err().unwrap_or_default();
        assert!(said.contains(why), "{text}: {said:?}, not {why:?}");
    }
}

/// The list in docs/graphs.md.
const CLASSES: &[(&str, &str)] = &[
    ("ARPQuerier", "MarkIPHeader(14) -> [0] q :: ARPQuerier(10.0.0.1, 02:00:00:00:00:01); Idle -> [1] q; q"),
    ("CheckIPHeader", "CheckIPHeader(14)"),
    ("CheckPaint", "CheckPaint(0)"),
    ("Classifier", "Classifier(12/0800)"),
    ("Counter", "Counter"),
    ("DecIPTTL", "MarkIPHeader(14) -> DecIPTTL"),
    ("DropBroadcasts", "DropBroadcasts"),
    ("EtherEncap", "Strip(14) -> EtherEncap(0x800, 02:00:00:00:00:01, 02:00:00:00:00:02)"),
    ("EtherMirror", "EtherMirror"),
    ("FixIPSrc", "FixIPSrc(10.0.0.1)"),
    ("FrontDropQueue", "FrontDropQueue"),
    ("GetIPAddress", "GetIPAddress(30)"),
    ("HostEtherFilter", "HostEtherFilter(02:00:00:00:00:01)"),
    ("IPClassifier", "MarkIPHeader(14) -> IPClassifier(udp or icmp type echo)"),
    ("IPFilter", "MarkIPHeader(14) -> IPFilter(deny src 10.0.0.0/8 && tcp dst port 80, allow all)"),
    ("IPFragmenter", "MarkIPHeader(14) -> IPFragmenter(1500)"),
    ("IPGWOptions", "MarkIPHeader(14) -> IPGWOptions(10.0.0.1)"),
    ("IPRewriter", "MarkIPHeader(14) -> IPRewriter(pattern 10.0.0.1 1024-65535 - - 0 0)"),
    ("LinearIPLookup", "MarkIPHeader(14) -> LinearIPLookup(10.0.0.0/8 0, 0/0 10.0.0.1 0)"),
    ("MarkIPHeader", "MarkIPHeader(14)"),
    ("Null", "Null"),
    ("Paint", "Paint(1)"),
    ("PaintSwitch", "PaintSwitch"),
    ("PaintTee", "Paint(1) -> t :: PaintTee(2); t [1] -> Discard; t"),
    ("Queue", "Queue"),
    ("Strip", "Strip(14)"),
    ("Switch", "Switch(0)"),
    ("Unstrip", "Strip(4) -> Unstrip(4)"),
];

#[test]
fn the_classes_that_the_documents_name_are_those_that_have_a_form() {
    let documents = include_str!("../../../docs/graphs.md");
    for (class, engine) in CLASSES {
        assert!(engines::class(class).is_some(), "{class}");
        // A queue may stand behind another one: each passes packets on.
        let text =
            if class.contains("Queue") { format!("FromDevice(a) -> {engine} -> ToDevice(b);") } else { around(engine) };
        fused(&text).unwrap_or_else(|why| panic!("{text}: {why}"));
    }
    fused("FromDevice(a) -> Discard;").unwrap();
    let names = CLASSES.iter().map(|(class, _)| *class).chain(["FromDevice", "ToDevice", "Discard"]);
    let listed = documents.split_once("Classes with a form in the kernel: ").and_then(|(_, rest)| rest.split_once('.'));
    let listed = listed.unwrap_or_default().0.replace('\n', " ");
    let mut listed: Vec<_> = listed.split(", ").map(str::trim).collect();
    let mut wanted: Vec<_> = names.collect();
    wanted.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, wanted);
}

#[test]
fn plans_that_do_not_end_or_reach_too_far_are_none() {
    let Fusion { plan: good, .. } = fused(&around("Strip(4) -> Unstrip(4) -> Counter -> EtherMirror")).unwrap();
    assert!(good.is_sound());
    let bent = |bend: &dyn Fn(&mut KernelPlan)| {
        let mut plan = good.clone();
        bend(&mut plan);
        plan.is_sound()
    };
    let block = |steps, end| FusedBlock { steps, end };
    assert!(!KernelPlan::default().is_sound());
    assert!(!bent(&|plan| plan.entries.clear()));
    assert!(!bent(&|plan| plan.entries[0].1 = 500));
    assert!(!bent(&|plan| plan.blocks[0].end = FusedEnd::To(0)));
    assert!(!bent(&|plan| plan.blocks[0].end = FusedEnd::Leave(1, 0)));
    assert!(!bent(&|plan| plan.blocks[0].end = FusedEnd::Leave(0, 35)));
    assert!(!bent(&|plan| plan.blocks[0].steps.push(FusedStep::Count(1024))));
    assert!(!bent(&|plan| plan.blocks[0].steps.push(FusedStep::Put(2040, vec![0; 9]))));
    assert!(!bent(&|plan| plan.blocks = vec![block(Vec::new(), FusedEnd::Drop); 513]));
    assert!(!bent(&|plan| plan.blocks[0].steps.push(FusedStep::PutFound(0, 17))));
    let find = |key, outputs: &[u16]| {
        let end = FusedEnd::Find { engine: 0, key, outputs: outputs.to_vec(), otherwise: 1 };
        bent(&|plan| plan.blocks[0].end = end.clone())
    };
    assert!(find(FusedKey::Ends, &[1]) && find(FusedKey::Next(FusedNext::Flow(12)), &[1, 1]));
    assert!(!find(FusedKey::Ends, &[]) && !find(FusedKey::Ends, &[0]) && !find(FusedKey::Ends, &[1; 17]));
    assert!(!find(FusedKey::Next(FusedNext::Flow(13)), &[1]) && !find(FusedKey::Next(FusedNext::Frame(2045)), &[1]));
}

#[derive(Debug, Default)]
struct Told(Mutex<Vec<u64>>);

impl GraphWords for Told {
    fn read(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }
}

#[test]
fn counts_that_cannot_be_read_for_once_are_counted_once() {
    let mut graph = load("FromDevice(a) -> c :: Counter -> Queue -> ToDevice(b);", &[]).unwrap();
    let fusion = plan(&graph, false, u32::from).unwrap();
    let all = vec![3; usize::from(fusion.links.count)];
    let words = Arc::<Told>::default();
    let mut part = FusedPart::new(fusion, words.clone(), None);
    for now in [all.clone(), Vec::new(), all] {
        *words.0.lock().unwrap() = now;
        part.settle(&mut graph, None);
    }
    let counter = graph.find("c").unwrap();
    assert_eq!(graph.read(counter, "count").as_deref(), Some("3"));
}

/// Each test doubles the ways, and behind the last one all of them go up without a block of their own.
#[test]
fn ways_to_engines_without_a_form_are_bounded() {
    let mut text = String::from("FromDevice(a) -> c0 :: Classifier(0/01, -);\n");
    for at in 0..40 {
        let next = at + 1;
        text += &format!("c{at} [0] -> Counter -> c{next} :: Classifier(0/01, -); c{at} [1] -> c{next};\n");
    }
    text += "q :: Queue -> ToDevice(b); c40 [0] -> m :: EtherMirror -> t :: Classifier(0/01, -); c40 [1] -> m; \
             t [0] -> q; t [1] -> Queue -> Shaper(9) -> Unqueue -> q;";
    let graph = load(&text, &[]).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let said = plan(&graph, true, u32::from).err().unwrap_or_default();
    assert!(said.contains("ways lead to engines without a form"), "{said}");
}
