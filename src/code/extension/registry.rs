//! Which extensions are loaded, and who needs whom. Example: `tenants` needs `names.lookup`, so `names` comes before it and stays until it
//! has gone.
//!
//! Several that come together may need each other, in whatever order they are given, but not in a ring. Nothing that is refused has
//! changed anything, and what is said names the chain: who needs whom, and what is missing at its end.

use super::every_node::{is_built_in, manifests};
use super::manifest::{ExtensionManifest, Need};
use crate::clean::shown;
use std::collections::BTreeMap;

/// Extensions of one node, besides those that every node has.
pub const EXTENSIONS_MAX: usize = 64;
/// Extensions of which each needs the next.
pub const CHAIN_MAX: usize = 8;

/// Extensions in the order in which they came, each after those that it needs.
#[derive(Debug)]
pub struct Registry<T> {
    all: Vec<(ExtensionManifest, T)>,
    /// How many stand one on the other, down from each.
    depths: BTreeMap<String, usize>,
}

impl<T> Default for Registry<T> {
    fn default() -> Registry<T> {
        Registry { all: Vec::new(), depths: BTreeMap::new() }
    }
}

impl<T> Registry<T> {
    /// Those that every node has.
    pub fn of_every_node(mut make: impl FnMut(&ExtensionManifest) -> Result<T, String>) -> Result<Registry<T>, String> {
        let mut registry = Registry::default();
        for manifest in manifests()? {
            let what = make(&manifest)?;
            registry.put(manifest, what);
        }
        Ok(registry)
    }

    /// How many have been loaded.
    fn loaded(&self) -> usize {
        self.all.iter().filter(|(manifest, _)| !is_built_in(&manifest.name)).count()
    }

    /// All, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &(ExtensionManifest, T)> {
        self.all.iter()
    }

    /// One of this name.
    pub fn get(&self, name: &str) -> Option<&(ExtensionManifest, T)> {
        self.all.iter().find(|(manifest, _)| manifest.name == name)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut (ExtensionManifest, T)> {
        self.all.iter_mut().find(|(manifest, _)| manifest.name == name)
    }

    /// Which ones there are when these have gone.
    pub fn without(&self, gone: &[String]) -> Registry<()> {
        let stay = self.all.iter().filter(|(manifest, _)| !gone.contains(&manifest.name));
        let all: Vec<_> = stay.map(|(manifest, _)| (manifest.clone(), ())).collect();
        let depths = all.iter().filter_map(|(manifest, ())| self.depths.get_key_value(&manifest.name));
        Registry { depths: depths.map(|(name, depth)| (name.clone(), *depth)).collect(), all }
    }

    /// There is none of this name: which ones there are.
    pub fn unknown(&self, name: &str) -> String {
        let names: Vec<_> = self.all.iter().map(|(manifest, _)| &*manifest.name).collect();
        let loaded = if names.is_empty() { "none is".into() } else { names.join(", ") };
        format!("no extension '{}' is loaded; loaded: {loaded}", shown(name))
    }

    /// In which order these can come, by their places in the list; the error says who lacks what.
    pub fn order(&self, new: &[ExtensionManifest]) -> Result<Vec<usize>, String> {
        if self.loaded() + new.len() > EXTENSIONS_MAX {
            return Err(format!("{} extensions are loaded, and a node has {EXTENSIONS_MAX} at most", self.loaded()));
        }
        for (at, manifest) in new.iter().enumerate() {
            let name = &manifest.name;
            if self.get(name).is_some() {
                return Err(format!("an extension {name} is loaded already: unload it first"));
            }
            if new[..at].iter().any(|other| other.name == *name) {
                return Err(format!("two extensions are called {name}"));
            }
        }
        let (mut order, mut depths) = (Vec::new(), self.depths.clone());
        for at in 0..new.len() {
            self.enter(new, at, &mut Vec::new(), (&mut order, &mut depths))?;
        }
        Ok(order)
    }

    /// Puts one in order behind those that it needs; `chain` are those that need it.
    fn enter(
        &self,
        new: &[ExtensionManifest],
        at: usize,
        chain: &mut Vec<usize>,
        (order, depths): (&mut Vec<usize>, &mut BTreeMap<String, usize>),
    ) -> Result<(), String> {
        if order.contains(&at) {
            return Ok(());
        }
        chain.push(at);
        for need in &new[at].needs {
            let place = new.iter().position(|manifest| manifest.name == need.extension);
            let other = place.map(|place| &new[place]).or_else(|| Some(&self.get(&need.extension)?.0));
            let said = |why: String| {
                let names: Vec<_> = chain.iter().map(|at| &*new[*at].name).collect();
                format!("{} needs {need}: {why}", names.join(", which is needed: "))
            };
            let Some(other) = other else {
                return Err(said(self.unknown(&need.extension)));
            };
            fits(other, need).map_err(said)?;
            let Some(place) = place else { continue };
            if chain.contains(&place) {
                let from = chain.iter().position(|at| *at == place).unwrap_or(0);
                let ring: Vec<_> = chain[from..].iter().chain([&place]).map(|at| &*new[*at].name).collect();
                return Err(format!("extensions need each other in a ring: {}", ring.join(" needs ")));
            }
            self.enter(new, place, chain, (&mut *order, &mut *depths))?;
        }
        chain.pop();
        let depth = depth(&new[at], depths);
        if depth > CHAIN_MAX {
            return Err(format!("{} stands on a chain of {depth} extensions; {CHAIN_MAX} at most", new[at].name));
        }
        depths.insert(new[at].name.clone(), depth);
        order.push(at);
        Ok(())
    }

    /// Puts one in, after [`Registry::order`].
    pub fn put(&mut self, manifest: ExtensionManifest, what: T) {
        self.depths.insert(manifest.name.clone(), depth(&manifest, &self.depths));
        self.all.push((manifest, what));
    }

    /// All that have to go for this one to go, in their order; it is the last of them.
    pub fn leaving(&self, name: &str) -> Result<Vec<String>, String> {
        if self.get(name).is_none() {
            return Err(self.unknown(name));
        }
        if is_built_in(name) {
            return Err(format!("{name} is part of every node, and stays"));
        }
        let mut gone = vec![name.to_owned()];
        // Whoever needs one has come after it.
        for (manifest, _) in &self.all {
            if manifest.needs.iter().any(|need| gone.contains(&need.extension)) {
                gone.push(manifest.name.clone());
            }
        }
        gone.reverse();
        Ok(gone)
    }

    /// Takes one out.
    pub fn take(&mut self, name: &str) -> Option<T> {
        let at = self.all.iter().position(|(manifest, _)| manifest.name == name)?;
        self.depths.remove(name);
        Some(self.all.remove(at).1)
    }
}

/// How many stand one on the other down from one, if that is known of those that it needs.
fn depth(manifest: &ExtensionManifest, known: &BTreeMap<String, usize>) -> usize {
    1 + manifest.needs.iter().filter_map(|need| known.get(&need.extension)).max().unwrap_or(&0)
}

/// Whether an extension has a call that another one needs.
pub fn fits(other: &ExtensionManifest, need: &Need) -> Result<(), String> {
    let Some(at) = other.call(&need.call) else {
        let calls: Vec<_> = other.calls.iter().map(|call| &*call.name).collect();
        let calls = if calls.is_empty() { "no calls".into() } else { calls.join(", ") };
        return Err(format!("{} has no call {}; it has {calls}", other.name, need.call));
    };
    let kind = &other.calls[at].kind;
    if *kind == need.kind { Ok(()) } else { Err(format!("{}.{} is of type {kind}", other.name, need.call)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a: b.f, c.g` is an extension that needs two calls.
    fn manifest(text: &str) -> ExtensionManifest {
        let (name, needs) = text.split_once(':').unwrap();
        let needs: Vec<_> = needs.split(',').map(str::trim).filter(|need| !need.is_empty()).collect();
        let needs: Vec<_> = needs.iter().map(|need| format!("'{need} : void -> int'")).collect();
        let calls = "[[call]]\nname = 'f'\ntype = 'void -> int'\n[[call]]\nname = 'g'\ntype = 'int -> int'";
        format!("name = '{name}'\nneeds = [{}]\n{calls}", needs.join(", ")).parse().unwrap()
    }

    fn registry(all: &[&str]) -> Registry<()> {
        let mut registry = Registry::default();
        for text in all {
            let new = manifest(text);
            assert_eq!(registry.order(core::slice::from_ref(&new)), Ok(vec![0]));
            registry.put(new, ());
        }
        registry
    }

    #[test]
    fn several_come_in_the_order_of_their_needs_or_not_at_all() {
        for (loaded, new, expected) in [
            (&[][..], &["a: b.f", "b: c.f", "c:"][..], Ok(&[2, 1, 0][..])),
            (&["c:"], &["a: b.f, c.f", "b: c.f"], Ok(&[1, 0])),
            (&["a:"], &["a:"], Err("an extension a is loaded already: unload it first")),
            (&[], &["a:", "a:"], Err("two extensions are called a")),
            (&["z:"], &["a: b.f"], Err("a needs b.f : void -> int: no extension 'b' is loaded; loaded: z")),
            (
                &[],
                &["a: b.f", "b: c.f"],
                Err("a, which is needed: b needs c.f : void -> int: no extension 'c' is loaded; loaded: none is"),
            ),
            (&["b:"], &["a: b.h"], Err("a needs b.h : void -> int: b has no call h; it has f, g")),
            (&["b:"], &["a: b.g"], Err("a needs b.g : void -> int: b.g is of type int -> int")),
            (&[], &["a: b.f", "b: c.f", "c: b.f"], Err("extensions need each other in a ring: b needs c needs b")),
        ] {
            let new: Vec<_> = new.iter().map(|text| manifest(text)).collect();
            let order = registry(loaded).order(&new);
            assert_eq!(order.as_deref().map_err(String::as_str), expected, "{loaded:?} {new:?}");
        }
    }

    #[test]
    fn chains_and_numbers_have_their_bounds() {
        let chain: Vec<_> =
            (0..9).map(|at| if at == 0 { "e0:".into() } else { format!("e{at}: e{}.f", at - 1) }).collect();
        let chain: Vec<_> = chain.iter().map(|text| manifest(text)).collect();
        let none = Registry::<()>::default();
        assert_eq!(none.order(&chain[..8]).unwrap().len(), 8);
        assert!(none.order(&chain).unwrap_err().contains("e8 stands on a chain of 9 extensions; 8 at most"));
        // Each needs the one before it many times over: that is looked at once.
        let wide: Vec<_> = (0..8)
            .map(|at| {
                let needs = if at == 0 { String::new() } else { vec![format!("e{}.f", at - 1); 64].join(", ") };
                manifest(&format!("e{at}: {needs}"))
            })
            .collect();
        assert_eq!(none.order(&wide).unwrap().len(), 8);
        let many: Vec<_> = (0..65).map(|at| manifest(&format!("e{at}:"))).collect();
        assert!(none.order(&many).unwrap_err().contains("64 at most"));
    }

    #[test]
    fn one_that_goes_takes_those_along_that_need_it() {
        let registry = registry(&["a:", "b: a.f", "x:", "c: b.f, a.f"]);
        assert_eq!(registry.leaving("a"), Ok(["c", "b", "a"].map(String::from).to_vec()));
        assert_eq!(registry.leaving("c"), Ok(vec!["c".to_owned()]));
        assert_eq!(registry.leaving("d").unwrap_err(), "no extension 'd' is loaded; loaded: a, b, x, c");
    }
}
