//! The object store: bytes by their digest, in memory and on disk.
//!
//! ```text
//! object(digest) ─▶ memory (LRU) ─▶ disk (LRU, hash verified) ─▶ None: the node fetches it
//! put(bytes)     ─▶ memory, and disk: temporary file ─▶ fsync ─▶ rename ─▶ fsync of the directory
//! ```
//!
//! Manifests, representations and credential sets of [`super::bundle`] are objects alike. Whatever happens to the
//! process or the disk, `object` returns bytes of that digest or nothing: an object appears by one
//! rename, and a file that rotted is removed, counted and absent. Both sides have limits in bytes
//! and entries and forget the longest unused first, except what the operator pinned. The disk may
//! be full or missing: the memory side works on. Several processes may share a directory.

mod bounds;
mod disk;
mod error;
mod lru;

pub use bounds::OBJECT_MAX;
pub use error::Error;

use super::bundle::{Bundle, Manifest};
use crate::trust::{CredentialSet, object_name};
use crate::wire::Digest;
use disk::{Disk, Found};
use lru::Lru;
use serde::Serialize;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How much a store may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Bytes of objects in memory.
    pub memory_bytes: u64,
    /// Objects in memory.
    pub memory_entries: usize,
    /// Bytes of objects on disk, pinned ones included.
    pub disk_bytes: u64,
    /// Objects on disk, pinned ones included.
    pub disk_entries: usize,
}

impl Default for StoreLimits {
    /// 8 MiB and 1024 objects in memory, 256 MiB and 16384 objects on disk.
    fn default() -> StoreLimits {
        StoreLimits { memory_bytes: 8 << 20, memory_entries: 1024, disk_bytes: 256 << 20, disk_entries: 16384 }
    }
}

/// What happened in a store since it was opened, and what it holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Look-ups answered from memory.
    pub memory_hits: u64,
    /// Look-ups answered from disk.
    pub disk_hits: u64,
    /// Look-ups of objects that are not here.
    pub misses: u64,
    /// Objects taken in.
    pub puts: u64,
    /// Objects that were on disk with other bytes than their digest's, and were removed.
    pub corrupt: u64,
    /// Objects that left the disk to make room.
    pub evictions: u64,
    /// Reads and writes of the disk that failed.
    pub disk_errors: u64,
    /// Bytes of objects in memory now.
    pub memory_bytes: u64,
    /// Objects in memory now.
    pub memory_entries: usize,
    /// Bytes of objects on disk now.
    pub disk_bytes: u64,
    /// Objects on disk now.
    pub disk_entries: usize,
}

/// One object, as [`Store::list`] shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub digest: Digest,
    /// Its bytes.
    pub size: u64,
    /// Whether it is kept when room is made.
    pub pinned: bool,
    /// The title, if it is a bundle's manifest; `None` for representations.
    pub title: Option<String>,
}

/// A content-addressed store of at most [`OBJECT_MAX`] bytes an object. Shared by reference.
#[derive(Debug)]
pub struct Store {
    memory: Mutex<Memory>,
    disk: Option<Disk>,
}

#[derive(Debug)]
struct Memory {
    objects: Lru<Arc<[u8]>>,
    stats: Stats,
}

impl Store {
    /// Opens the store in directory `path`, which is made if it is not there; `None` keeps objects
    /// in memory only. Remains of interrupted writes are removed, and objects beyond the limits.
    pub fn open(path: Option<&Path>, limits: StoreLimits) -> Result<Store, Error> {
        let disk = path.map(|path| Disk::open(path, limits.disk_bytes, limits.disk_entries)).transpose()?;
        let objects = Lru::new(limits.memory_bytes, limits.memory_entries);
        Ok(Store { memory: Mutex::new(Memory { objects, stats: Stats::default() }), disk })
    }

    /// The object of this digest; from disk only after its hash has been verified.
    pub fn object(&self, digest: &Digest) -> Option<Arc<[u8]>> {
        let mut memory = self.memory();
        if let Some(bytes) = memory.objects.touch(digest).cloned() {
            memory.stats.memory_hits += 1;
            drop(memory);
            // What is used stays on disk too.
            if let Some(disk) = &self.disk {
                disk.used(digest);
            }
            return Some(bytes);
        }
        drop(memory);
        let found = self.disk.as_ref().map_or(Found::Absent, |disk| disk.read(digest));
        let mut memory = self.memory();
        match found {
            Found::Object(bytes) => {
                memory.stats.disk_hits += 1;
                memory.objects.insert(*digest, bytes.len() as u64, bytes.clone());
                return Some(bytes);
            }
            Found::Corrupt => memory.stats.corrupt += 1,
            Found::Failed => memory.stats.disk_errors += 1,
            Found::Absent => {}
        }
        memory.stats.misses += 1;
        None
    }

    /// The object of this digest if it is in memory; that is no use of it.
    pub fn in_memory(&self, digest: &Digest) -> Option<Arc<[u8]>> {
        self.memory().objects.peek(digest).cloned()
    }

    /// Keeps an object, in memory and on disk, and returns its name. If the disk refuses it
    /// ([`Error::digest`] is then some), it is in memory all the same.
    pub fn put(&self, bytes: impl Into<Arc<[u8]>>) -> Result<Digest, Error> {
        let bytes = bytes.into();
        let (digest, on_disk) = self.keep(&bytes)?;
        if on_disk { self.write(&digest, &bytes).map(|()| digest) } else { Ok(digest) }
    }

    /// The first half of [`Store::put`]: keeps an object in memory. Gives its name, and whether there is a disk to write it to.
    pub fn keep(&self, bytes: &Arc<[u8]>) -> Result<(Digest, bool), Error> {
        if bytes.len() > OBJECT_MAX {
            return Err(Error::TooLong { bytes: bytes.len() });
        }
        let digest = object_name(bytes);
        let mut memory = self.memory();
        memory.stats.puts += 1;
        let fits = memory.objects.insert(digest, bytes.len() as u64, bytes.clone()).is_some();
        if fits || self.disk.is_some() {
            Ok((digest, self.disk.is_some()))
        } else {
            Err(Error::NoRoom { digest, path: None })
        }
    }

    /// The second half: keeps it on disk, which takes its time.
    pub fn write(&self, digest: &Digest, bytes: &[u8]) -> Result<(), Error> {
        let Some(disk) = &self.disk else { return Ok(()) };
        let (result, evictions) = disk.write(digest, bytes);
        let mut memory = self.memory();
        memory.stats.evictions += evictions;
        memory.stats.disk_errors += u64::from(result.is_err());
        result
    }

    /// Forgets an object, pinned or not; whether it was here.
    pub fn remove(&self, digest: &Digest) -> Result<bool, Error> {
        let mut memory = self.memory();
        memory.objects.unpin(digest);
        let here = memory.objects.remove(digest).is_some();
        drop(memory);
        let there = self.disk.as_ref().map_or(Ok(false), |disk| disk.remove(digest))?;
        Ok(here || there)
    }

    /// Keeps an object when room is made, from now on or from when it is put. Without disk the
    /// pin lasts as long as the store.
    pub fn pin(&self, digest: &Digest) -> Result<(), Error> {
        match &self.disk {
            Some(disk) => disk.pin(digest),
            None => {
                self.memory().objects.pin(digest);
                Ok(())
            }
        }
    }

    /// Lets an object go when room is made; whether it was pinned.
    pub fn unpin(&self, digest: &Digest) -> Result<bool, Error> {
        match &self.disk {
            Some(disk) => disk.unpin(digest),
            None => Ok(self.memory().objects.unpin(digest)),
        }
    }

    /// Every object, sorted by digest. Reads what may be manifests.
    pub fn list(&self) -> Vec<Entry> {
        let mut found: Vec<(Digest, u64, bool)> = self.memory().objects.entries().collect();
        if let Some(disk) = &self.disk {
            found.extend(disk.entries());
        }
        // Of an object that is in both places the pinned entry comes first and stays.
        found.sort_by_key(|(digest, _, pinned)| (*digest, !pinned));
        found.dedup_by_key(|(digest, _, _)| *digest);
        let entry = |(digest, size, pinned)| Entry { digest, size, pinned, title: self.title(&digest, size) };
        found.into_iter().map(entry).collect()
    }

    /// The bundle of this name with those of its representations that are here; `None` if its
    /// manifest is absent or the object is no manifest.
    pub fn bundle(&self, name: &Digest) -> Option<Bundle> {
        let mut bundle = Bundle::of_manifest(&self.object(name)?).ok()?;
        for layer in bundle.manifest().layers().to_vec() {
            if let Some(bytes) = self.object(&layer.digest) {
                bundle.add(layer.kind, bytes).ok()?;
            }
        }
        if let Some(credentials) = self.object(&CredentialSet::name_for(name)) {
            // What is none does not make the bundle one.
            let _ = bundle.add_credentials(credentials);
        }
        Some(bundle)
    }

    /// Keeps everything of a bundle that is at hand and, for code that the operator adds, pins it. If the disk refuses it, it is in
    /// memory all the same, and stays there if it is pinned; the error says why.
    pub fn put_bundle(&self, bundle: &Bundle, pin: bool) -> Result<(), Error> {
        let mut refused = None;
        for object in bundle.objects() {
            let pinned = if pin { self.pin(&object_name(object)) } else { Ok(()) };
            let kept = pinned.and_then(|()| self.put(object.clone()).map(drop));
            if let Err(error) = kept {
                if !error.is_of_full_disk() {
                    return Err(error);
                }
                if pin {
                    self.memory().objects.pin(&object_name(object));
                }
                self.keep(object)?;
                refused = Some(error);
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Forgets a bundle: its manifest, and those representations that no other manifest here
    /// names. Whether its manifest was here.
    pub fn remove_bundle(&self, name: &Digest) -> Result<bool, Error> {
        let Some(bundle) = self.bundle(name) else { return self.remove(name) };
        let here = self.remove(name)?;
        self.remove(&CredentialSet::name_for(name))?;
        let shared: Vec<Digest> = self
            .list()
            .iter()
            .filter(|entry| entry.title.is_some())
            .filter_map(|entry| self.bundle(&entry.digest))
            .flat_map(|other| other.manifest().layers().iter().map(|layer| layer.digest).collect::<Vec<_>>())
            .collect();
        for layer in bundle.manifest().layers() {
            if !shared.contains(&layer.digest) {
                self.remove(&layer.digest)?;
            }
        }
        Ok(here)
    }

    /// What happened so far, and what is here.
    pub fn stats(&self) -> Stats {
        let memory = self.memory();
        let (memory_bytes, memory_entries) = (memory.objects.bytes(), memory.objects.len());
        let stats = Stats { memory_bytes, memory_entries, ..memory.stats };
        drop(memory);
        let (disk_bytes, disk_entries) = self.disk.as_ref().map_or((0, 0), Disk::usage);
        Stats { disk_bytes, disk_entries, ..stats }
    }

    fn title(&self, digest: &Digest, size: u64) -> Option<String> {
        if size > super::bundle::MANIFEST_MAX as u64 {
            return None;
        }
        // Listing is no use of an object: neither order nor counters change.
        let here = self.memory().objects.peek(digest).cloned();
        let bytes = match (here, &self.disk) {
            (Some(bytes), _) => bytes,
            (None, Some(disk)) => disk.peek(digest)?,
            (None, None) => return None,
        };
        Manifest::parse(&bytes).ok().map(|manifest| manifest.title().into())
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // The state is consistent between any two statements, so a panic elsewhere is no harm.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
