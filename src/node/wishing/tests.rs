//! Wishes of several codes and roles, without a node.

use super::*;
use crate::core::domain::Domain;
use crate::core::wish::WishWords;

fn role(name: &str, numbers: &[u32], write: &str) -> Arc<Role> {
    let edit =
        |number: &u32| format!("{{ number = {number}, name = \"e{number}\", graph = \"g\", write = \"{write}\" }}");
    let edits: Vec<String> = numbers.iter().map(edit).collect();
    let text = format!("name = \"{name}\"\ngraphs = {{ edits_per_second = 10, edits = [{}] }}", edits.join(", "));
    Arc::new(toml::from_str(&text).unwrap())
}

/// Codes of these roles, and what they wish with.
fn seated(roles: &[&Arc<Role>]) -> (Wishing, Domains, Vec<DomainId>) {
    let (mut wishing, mut domains) = (Wishing::default(), Domains::default());
    let root = domains.root();
    let mut ids = Vec::new();
    for role in roles {
        let mut domain = Domain::in_role("c".into(), role);
        domain.wishes.here = Some(Arc::default());
        domain.wishes.tell(role.graphs.wishes(), role.graphs.wishes());
        let id = domains.create(root, domain).unwrap();
        wishing.seat(id, 0);
        ids.push(id);
    }
    (wishing, domains, ids)
}

fn wish(domains: &Domains, id: DomainId, number: u32) -> bool {
    domains.by_id(id).unwrap().wishes.here.as_ref().unwrap().wish(number).is_ok()
}

fn begun(wishing: &mut Wishing, has: bool) -> Vec<(String, u32)> {
    let begun = wishing.begin(|_| has);
    begun.into_iter().map(|wish| (wish.role.name.clone(), wish.number)).collect()
}

fn over(wishing: &mut Wishing, role: &Arc<Role>, number: u32, result: Result<(), GraphRefusal>) -> Option<String> {
    let wish = WishedEdit { role: role.clone(), number, domain: DomainId(0) };
    wishing.over(&wish, result)
}

#[test]
fn codes_of_a_role_wish_together_and_each_role_has_one_under_way() {
    let (one, other) = (role("one", &[0, 1], "c.reset="), role("other", &[0], "c.reset="));
    let (mut wishing, domains, ids) = seated(&[&one, &one, &other]);
    assert!(wish(&domains, ids[1], 1) && !wish(&domains, ids[2], 1));
    wishing.take(&domains);
    assert!(wish(&domains, ids[0], 1) && wish(&domains, ids[0], 0) && wish(&domains, ids[2], 0));
    wishing.take(&domains);
    assert_eq!(wishing.counts.taken, 3, "two codes have wished for the same");
    assert_eq!(begun(&mut wishing, false), []);
    assert_eq!(begun(&mut wishing, true), [("one".into(), 1), ("other".into(), 0)]);
    assert_eq!(begun(&mut wishing, true), []);
    assert_eq!(over(&mut wishing, &one, 1, Ok(())), None);
    assert_eq!(begun(&mut wishing, true), [("one".into(), 0)]);
}

#[test]
fn where_a_role_has_no_change_left_only_what_stands_is_open() {
    let one = role("one", &[0, 1], "c.reset=");
    let (mut wishing, domains, ids) = seated(&[&one]);
    assert!(wish(&domains, ids[0], 0));
    wishing.take(&domains);
    wishing.open(&domains, |_| false);
    assert!(wish(&domains, ids[0], 0) && !wish(&domains, ids[0], 1));
    wishing.open(&domains, |_| true);
    assert!(wish(&domains, ids[0], 1));
}

#[test]
fn why_an_edit_cannot_be_done_is_said_once_and_kept() {
    let one = role("one", &[0], "c.reset=");
    let (mut wishing, domains, ids) = seated(&[&one]);
    let refusal = |why: &str| Err(GraphRefusal::from(why.to_owned()));
    for (result, said) in [(refusal("a"), Some("a")), (refusal("b"), None), (Ok(()), None), (refusal("c"), None)] {
        assert!(wish(&domains, ids[0], 0));
        wishing.take(&domains);
        assert_eq!(begun(&mut wishing, true).len(), 1);
        assert_eq!(over(&mut wishing, &one, 0, result).as_deref(), said);
    }
    let status = wishing.status("one", one.graphs.edit(0).unwrap());
    assert_eq!((status.done, status.refused, &*status.why, status.stands), (1, 3, "c", false));
}

#[test]
fn what_stands_for_an_edit_that_is_another_one_is_forgotten() {
    let one = role("one", &[0, 1], "c.reset=");
    let (mut wishing, domains, ids) = seated(&[&one]);
    assert!(wish(&domains, ids[0], 0) && wish(&domains, ids[0], 1));
    wishing.take(&domains);
    let mut other = (*one).clone();
    other.graphs.named[0].write = Some("c.reset=1".into());
    wishing.renew(&Roles::new(vec![other.clone()]).unwrap());
    assert_eq!(begun(&mut wishing, true), [("one".into(), 1)]);
    other.graphs.named.clear();
    wishing.renew(&Roles::new(vec![other]).unwrap());
    assert_eq!(over(&mut wishing, &one, 1, Ok(())), None, "it was under way");
    assert!(wishing.list.is_empty());
}

#[test]
fn a_code_that_has_gone_is_looked_at_no_more() {
    let one = role("one", &[0], "c.reset=");
    let (mut wishing, mut domains, ids) = seated(&[&one]);
    domains.end(ids[0]);
    wishing.take(&domains);
    assert!(wishing.seats.is_empty());
}

#[test]
fn what_somebody_else_came_before_stands_again() {
    let one = role("one", &[0], "c.reset=");
    let (mut wishing, domains, ids) = seated(&[&one]);
    assert!(wish(&domains, ids[0], 0));
    wishing.take(&domains);
    for error in [Error::Changed, Error::Again] {
        assert_eq!(begun(&mut wishing, true).len(), 1);
        assert_eq!(over(&mut wishing, &one, 0, Err(GraphRefusal::new(error, "generation 3 runs".into()))), None);
    }
    assert_eq!(begun(&mut wishing, true), [("one".into(), 0)]);
    assert_eq!(wishing.status("one", one.graphs.edit(0).unwrap()).refused, 0);
}

#[test]
fn what_is_under_way_for_an_edit_that_is_another_one_is_not_that_one_s() {
    let one = role("one", &[0], "c.reset=");
    let (mut wishing, domains, ids) = seated(&[&one]);
    assert!(wish(&domains, ids[0], 0));
    wishing.take(&domains);
    assert_eq!(begun(&mut wishing, true).len(), 1);
    let other = role("one", &[0], "c.reset=1");
    wishing.renew(&Roles::new(vec![(*other).clone()]).unwrap());
    wishing.stand(WishedEdit { role: other.clone(), number: 0, domain: ids[0] }, &domains);
    assert_eq!(begun(&mut wishing, true), [], "the role has one under way");
    assert_eq!(over(&mut wishing, &one, 0, Err("too late".to_owned().into())), None);
    let status = |wishing: &Wishing| {
        let status = wishing.status("one", other.graphs.edit(0).unwrap());
        (status.stands, status.done, status.refused)
    };
    assert_eq!(status(&wishing), (true, 0, 0));
    assert_eq!(begun(&mut wishing, true).len(), 1);
    assert_eq!(over(&mut wishing, &other, 0, Ok(())), None);
    assert_eq!((status(&wishing), wishing.list.len()), ((false, 1, 0), 1));
}

#[test]
fn who_has_wished_first_pays_unless_it_has_gone() {
    let one = role("one", &[0], "c.reset=");
    for has_gone in [false, true] {
        let (mut wishing, mut domains, ids) = seated(&[&one, &one]);
        assert!(wish(&domains, ids[0], 0));
        wishing.take(&domains);
        if has_gone {
            domains.end(ids[0]);
        }
        assert!(wish(&domains, ids[1], 0));
        wishing.take(&domains);
        let payers: Vec<_> = wishing.begin(|_| true).into_iter().map(|wish| wish.domain).collect();
        assert_eq!(payers, [ids[usize::from(has_gone)]]);
        // What comes while that is under way is another edit, and another payer's.
        assert!(wish(&domains, ids[1], 0));
        wishing.take(&domains);
        over(&mut wishing, &one, 0, Ok(()));
        assert_eq!(wishing.begin(|_| true).first().map(|wish| wish.domain), Some(ids[1]));
    }
}
