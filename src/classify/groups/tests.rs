//! Groups under any order of changes.

use super::*;
use crate::classify::rule::{ANYWHERE, Layer, Rule};
use crate::wire::{Addr, Prefix};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn shape(layer: Layer, [from, to]: [u8; 2], [source, destination]: [bool; 2], kind: bool) -> Shape {
    let block = |length| Prefix::new(Addr([0xfd; 16]), length);
    let transport = layer == Layer::Udp;
    let rule = Rule {
        port: None,
        layer,
        kind: (kind && !transport).then_some(9),
        source: if layer == Layer::Link { ANYWHERE } else { block(from) },
        destination: if layer == Layer::Link { ANYWHERE } else { block(to) },
        source_port: (source && transport).then_some(1),
        destination_port: (destination && transport).then_some(2),
        key: vec![],
    };
    Shape::of(&rule).by_number()
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let layer = prop_oneof![Just(Layer::Link), Just(Layer::Ip), Just(Layer::Udp)];
    // Few lengths have masks be the same by several ways.
    let length = || prop_oneof![0u8..=128, (0u8..=4).prop_map(|bytes| bytes * 8)];
    (layer, [length(), length()], any::<[bool; 2]>(), any::<bool>())
        .prop_map(|(layer, blocks, ports, kind)| shape(layer, blocks, ports, kind))
}

proptest! {
    /// Each shape is in one group whose mask it has in common with itself, masks are few, and what a change says is what it has changed.
    #[test]
    fn each_mask_is_coarser_than_its_shapes_whatever_comes_and_goes(
        shapes in prop::collection::vec(any_shape(), 30..90),
        steps in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..300),
    ) {
        let (mut groups, mut there) = (ShapeGroups::default(), BTreeSet::new());
        let mut lists: BTreeSet<(Shape, Shape)> = BTreeSet::new();
        let first = (0..shapes.len()).map(|at| (at, true));
        let steps = first.chain(steps.iter().map(|(at, adds)| (at.index(shapes.len()), *adds)));
        for (at, adds) in steps {
            let shape = shapes[at];
            let is_change = if adds { there.insert(shape) } else { there.remove(&shape) };
            if !is_change {
                continue;
            }
            let Regrouped { masks, listed, unlisted } =
                if adds { groups.add(shape) } else { groups.remove(shape) };
            prop_assert!(masks);
            unlisted.iter().for_each(|pair| assert!(lists.remove(pair)));
            listed.iter().for_each(|pair| assert!(lists.insert(*pair)));
            prop_assert_eq!(groups.shapes().collect::<BTreeSet<_>>(), there.clone());
            let all: Vec<_> = groups.masks().collect();
            prop_assert!(all.len() <= MASKS && (all.len() == MASKS || all.iter().all(|(_, merged)| !merged)));
            prop_assert!(all.windows(2).all(|pair| pair[0].0 >= pair[1].0));
            let merged: BTreeSet<_> = all.iter().filter(|(_, merged)| *merged).map(|(mask, _)| *mask).collect();
            prop_assert_eq!(merged.len(), all.iter().filter(|(_, merged)| *merged).count(), "no two of the same mask");
            for shape in &there {
                match groups.mask_of(*shape) {
                    Some(mask) => prop_assert!(shape.common(mask) == Some(mask) && lists.contains(&(mask, *shape))),
                    None => prop_assert!(all.contains(&(*shape, false))),
                }
            }
            prop_assert_eq!(lists.len(), there.iter().filter(|shape| groups.mask_of(**shape).is_some()).count());
        }
    }
}

#[test]
fn what_few_rules_look_at_is_left_out_before_what_many_do() {
    let mut groups = ShapeGroups::default();
    // A thousand hosts, and as many shapes of one rule each as there are masks beside.
    let many = shape(Layer::Ip, [0, 128], [false; 2], false);
    (0..1000).for_each(|_| drop(groups.add(many)));
    (1..=MASKS as u8).for_each(|length| drop(groups.add(shape(Layer::Ip, [length, 120], [false; 2], false))));
    assert_eq!(groups.masks().len(), MASKS);
    assert_eq!(groups.mask_of(many), None, "it has a mask of its own");
}

#[test]
fn a_shape_that_is_left_alone_takes_nothing_from_who_shares_its_mask() {
    let of = |blocks| shape(Layer::Ip, blocks, [false; 2], false);
    let group = |mask, shapes: &[(Shape, usize)]| Group { mask, shapes: shapes.iter().copied().collect() };
    let one = group(of([8, 8]), &[(of([16, 8]), 1), (of([8, 16]), 1)]);
    let other = group(of([0, 8]), &[(of([8, 8]), 1), (of([0, 32]), 100)]);
    let all: BTreeSet<_> = one.shapes.keys().chain(other.shapes.keys()).copied().collect();
    let mut groups = ShapeGroups(vec![one, other]);
    groups.split();
    assert_eq!(groups.shapes().collect::<BTreeSet<_>>(), all);
}
