//! One evaluation under way: its remaining limits, and the node it runs on.

use super::{Fault, Limits, Node, Result, Stop, spend};
use crate::name::Name;
use crate::packet::Header;
use crate::program::ServiceId;
use crate::value::{Extent, Value};

/// An evaluation under way.
pub struct Run<'a> {
    node: &'a mut dyn Node,
    header: &'a Header,
    left: Limits,
    bound: u32,
    /// What of the depth is in use.
    depth: u32,
}

/// What a service may know of the evaluation that calls it, and spend.
#[derive(Debug)]
pub struct State<'a> {
    /// The header of the packet that is evaluated.
    pub header: &'a Header,
    /// What is left of its resource bound. A service that sends lowers it; raising it has no effect.
    pub bound: u32,
    /// The steps that are left. A service that takes long lowers them; raising them has no effect.
    pub steps: u32,
}

impl<'a> Run<'a> {
    /// The evaluation of a packet with this header. A report has no resource bound: it can send nothing.
    pub fn new(node: &'a mut dyn Node, header: &'a Header, limits: Limits) -> Run<'a> {
        let bound = if header.report { 0 } else { header.bound };
        Run { node, header, left: limits, bound, depth: 0 }
    }

    /// What is left of the resource bound.
    pub fn bound(&self) -> u32 {
        self.bound
    }

    /// How many steps are left.
    pub fn steps_left(&self) -> u32 {
        self.left.steps
    }

    /// How many cells are left.
    pub fn cells_left(&self) -> u32 {
        self.left.cells
    }

    pub(super) fn header(&self) -> &'a Header {
        self.header
    }

    /// The node, the header, and what is left of bound and steps: for [`super::send`].
    pub(super) fn parts(&mut self) -> (&mut dyn Node, &'a Header, &mut u32, &mut u32) {
        (self.node, self.header, &mut self.bound, &mut self.left.steps)
    }

    #[inline]
    pub(super) fn step(&mut self) -> Result<()> {
        self.steps(1)
    }

    #[inline]
    pub(super) fn steps(&mut self, steps: u32) -> Result<()> {
        spend(&mut self.left.steps, steps)
    }

    #[inline]
    pub(super) fn cells(&mut self, cells: u32) -> Result<()> {
        match self.left.cells.checked_sub(cells) {
            Some(left) => {
                self.left.cells = left;
                Ok(())
            }
            None => {
                self.left.cells = 0;
                Err(Fault::Memory.into())
            }
        }
    }

    /// Counts an operation that looks at all of a value.
    #[inline]
    pub(super) fn look_at(&mut self, extent: Extent) -> Result<()> {
        self.steps(extent.weight / 16)
    }

    #[inline]
    pub(super) fn depth(&self) -> u32 {
        self.depth
    }

    /// Goes deeper; [`set_depth`](Run::set_depth) comes back.
    #[inline]
    pub(super) fn enter(&mut self, depth: u32) -> Result<()> {
        let deeper = self.depth.saturating_add(depth);
        if deeper > self.left.depth {
            return Err(Fault::Depth.into());
        }
        self.depth = deeper;
        Ok(())
    }

    #[inline]
    pub(super) fn set_depth(&mut self, depth: u32) {
        self.depth = depth;
    }

    /// The value that a service's name stands for.
    pub(super) fn constant(&mut self, name: &Name, service: Option<ServiceId>) -> Result<Value> {
        let value = service.and_then(|service| self.node.constant(service));
        Ok(value.unwrap_or_else(|| Value::Service(name.clone())))
    }

    /// Calls a service of the node; what it gives back is paid for.
    pub(super) fn call(&mut self, service: Option<ServiceId>, arguments: &[Value]) -> Result<Value> {
        let weight = arguments.iter().map(|argument| argument.extent().weight).fold(0, u32::saturating_add);
        self.steps(weight / 16)?;
        let service = service.ok_or(Stop::Raise(Name::SERVICE_NOT_PRESENT))?;
        let mut state = State { header: self.header, bound: self.bound, steps: self.left.steps };
        let value = self.node.call(service, arguments, &mut state);
        self.left.steps = self.left.steps.min(state.steps);
        let value = value?;
        self.bound = self.bound.min(state.bound);
        self.cells(value.extent().weight)?;
        Ok(value)
    }

    /// Which of the node's services has this name.
    pub(super) fn service(&self, name: &Name) -> Option<ServiceId> {
        self.node.service(name)
    }
}
