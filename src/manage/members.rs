//! What the management environment asks of this node: domains for its members, their files and sockets, and whether they
//! still live.

use super::ee::{Acceptor, ObjectHost, attend};
use super::files::Files;
use super::management::{Domains, Member};
use crate::code::bundle::Kind;
use crate::core::domain::DomainId;
use crate::frame::WorkerId;
use crate::node::EndedBy;
use crate::nodeos::file::Quota;
use crate::sys::seqpacket::SeqPacket;
use std::sync::Arc;

/// Who answers it.
pub(super) struct NodeDomains {
    /// What sessions of environments need.
    pub acceptor: Acceptor,
    pub files: Option<Arc<Files>>,
}

impl Domains for NodeDomains {
    fn create(&self, name: &str, role: &str, worker: WorkerId) -> Result<DomainId, String> {
        let asked = (name.to_owned(), role.to_owned());
        let handle = &self.acceptor.handle;
        let domain = handle.with_worker(worker, move |node, _| node.add_environment(&asked.0, &asked.1))??;
        handle.homes().enter(domain, worker);
        let roles = self.acceptor.roles.now();
        let quota = roles.iter().find(|found| found.name == role).map(|role| Quota::from(&role.grants));
        if let Some((files, quota)) = self.files.as_ref().zip(quota)
            && let Err(error) = files.enter(domain, name, quota)
        {
            self.end(domain);
            return Err(format!("its files: {error}"));
        }
        Ok(domain)
    }

    fn end(&self, domain: DomainId) {
        // A node that is going down ends all of them.
        let (handle, homes) = (&self.acceptor.handle, self.acceptor.handle.homes());
        let _ = handle.with_home(&homes.of(domain), move |node, turn| node.end_environment(turn, domain));
        homes.forget(domain);
        if let Some(files) = &self.files {
            files.leave(domain);
        }
    }

    fn admit(&self, member: Member, socket: SeqPacket) -> std::io::Result<()> {
        attend(self.acceptor.clone(), member, socket)
    }

    fn host(&self, domain: DomainId, role: &str) -> Result<Arc<ObjectHost>, String> {
        let roles = self.acceptor.roles.now();
        let role = roles.iter().find(|found| found.name == role).ok_or("its role is gone")?;
        if !role.representations.has(Kind::Native) {
            return Err(format!("the role {} does not include native code", role.name));
        }
        Ok(Arc::new(ObjectHost::new(self.acceptor.handle.clone(), self.acceptor.clock, domain, role.clone())))
    }

    fn felled_by(&self, domain: DomainId) -> Option<EndedBy> {
        let each = self.acceptor.handle.with_each(move |node, _| node.felled_by(domain)).ok()?;
        each.into_iter().flatten().next()
    }

    fn living(&self, domains: Vec<DomainId>) -> Option<Vec<DomainId>> {
        let _still = self.acceptor.handle.homes().still();
        let each = self.acceptor.handle.with_each(move |node, _| node.living(domains.clone())).ok()?;
        Some(each.into_iter().flatten().collect())
    }

    fn with_files(&self) -> Option<Vec<DomainId>> {
        self.files.as_ref().map(|files| files.users())
    }

    fn without_files(&self, domain: DomainId) {
        if let Some(files) = &self.files {
            files.leave(domain);
        }
    }
}
