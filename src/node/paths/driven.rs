//! What a driver tells the order of packets and asks of it: the policy, turns, what each cost. Example: a worker calls
//! [`Node::run_turn`] until nothing waits, and [`Node::ran`] with the time that each turn took.

use super::*;

impl Node {
    /// How the CPU is divided among domains from now on. Packets that wait are not dropped.
    pub fn set_scheduler(&mut self, policy: Policy, now: u64) {
        let waits = policy.waits() || self.cx.has_work();
        self.cx.order.paths.policy = policy;
        self.cx.order.paths.scheduler = waits.then(|| PathScheduler::new(policy));
        for at in 0..self.cx.order.paths.queues.len() {
            let Queue { domain, length, .. } = self.cx.order.paths.queues[at];
            self.cx.enter_path(domain, now);
            if length > 0 {
                self.cx.wake_path(domain, now);
            }
        }
    }

    /// What all capsules have of the CPU beside other environments, and all PLAN packets, by weight: before anything of theirs has waited.
    pub fn set_weights(&mut self, capsules: u32, plan: u32) {
        let own = [self.ask(|environment: &mut Capsules, _| environment.domain), self.plan_domain()];
        for (domain, weight) in own.into_iter().zip([capsules, plan]) {
            if let Some(domain) = domain.and_then(|domain| self.cx.core.domains.of(domain)) {
                domain.grants.weight = weight;
            }
        }
    }

    /// How the CPU is divided.
    pub fn scheduler(&self) -> Policy {
        self.cx.order.paths.policy
    }

    /// What a domain has used.
    pub fn usage(&self, domain: DomainId) -> Option<Usage> {
        Some(self.cx.core.domains.by_id(domain)?.usage())
    }

    /// Packets of a domain that were done after their deadline.
    pub fn missed_deadlines(&self, domain: DomainId) -> u64 {
        self.cx.order.paths.missed_deadlines(domain)
    }

    /// Runs the next packet.
    pub fn run_next(&mut self, turn: &mut Turn<'_>) -> Option<Ran> {
        let joins = core::mem::take(&mut self.cx.order.paths.more);
        let flow = self.cx.order.paths.scheduler.as_mut()?.next(turn.now)?;
        let domain = self.cx.order.paths.queues.get(flow)?.domain;
        let Some((frame, work, reserved)) = self.cx.order.paths.pop(flow) else {
            let nobody = Payer::NOBODY;
            return Some(Ran { domain, part: None, packets: 1, payer: nobody, reserved: 0, urgent: false, steps: 0 });
        };
        let payer = frame.payer;
        self.cx.order.paths.part = None;
        self.cx.order.paths.more = joins && self.cx.order.paths.goes_on(domain, payer);
        let steps = self.environments.run(&mut self.cx, turn, domain, work, frame);
        let urgent = self.cx.order.paths.scheduler.as_ref().is_some_and(|scheduler| scheduler.is_timed(flow));
        let part = self.cx.order.paths.part.take();
        Some(Ran { domain, part, packets: 1, payer, reserved, urgent, steps })
    }

    /// The same, and while nobody else waits, more capsules of that domain and neighbour: together they are one turn,
    /// measured and paid at once.
    pub fn run_turn(&mut self, turn: &mut Turn<'_>) -> Option<Ran> {
        self.cx.order.paths.more = true;
        let mut ran = self.run_next(turn)?;
        // Who was told that there is one more, and took no steps, has it.
        while core::mem::take(&mut self.cx.order.paths.more) && ran.steps < TURN_STEPS {
            let Some((frame, work, reserved)) = self.cx.order.paths.pop(ran.domain.index()) else { break };
            ran.packets += 1;
            self.cx.order.paths.more = ran.packets < TURN && self.cx.order.paths.goes_on(ran.domain, ran.payer);
            ran.steps += self.environments.run(&mut self.cx, turn, ran.domain, work, frame);
            ran.reserved = ran.reserved.saturating_add(reserved);
        }
        Some(ran)
    }

    /// So many packets were read and taken in at this cost, in nanoseconds.
    pub fn received(&mut self, packets: usize, cost: u64) {
        if let Some(mut ran) = self.cx.order.paths.ran.take() {
            ran.part = self.cx.order.paths.part.take();
            // The only packet has had its turn: all that was done was for it.
            self.cx.order.entry.received(packets, 0);
            let now = self.cx.order.entry.now().saturating_add(cost);
            return self.ran(ran, cost, now);
        }
        let each = self.cx.order.entry.received(packets, cost);
        self.cx.pay(self.cx.order.entry.now());
        if packets > 0 {
            let paths = &mut self.cx.order.paths;
            // What was done at once is paid for already.
            let each = if paths.is_queueing() { cost / packets as u64 } else { each };
            // The mean of the last eight batches or so: one in which the worker was interrupted says little.
            paths.intake = if paths.intake == 0 { each } else { (paths.intake * 7 + each) / 8 };
        }
    }

    /// What a packet has cost, in nanoseconds; without a clock in steps, but always the same.
    pub fn ran(&mut self, ran: Ran, cost: u64, now: u64) {
        let flow = ran.domain.index();
        self.cx.order.entry.settle(ran.payer, now, ran.reserved, cost);
        let queue = self.cx.order.paths.queues.get_mut(flow);
        let (more, came) = queue.map_or((false, 0), |queue| (queue.length > 0, core::mem::take(&mut queue.came)));
        // What came since the last turn is the domain's: it may be of others than who had this one.
        let intake = u64::from(came) * self.cx.order.paths.intake;
        if let Some(scheduler) = &mut self.cx.order.paths.scheduler {
            scheduler.charge(flow, cost + intake, more, now);
        }
        self.cx.enter_account((ran.domain, ran.part), cost);
        self.cx.enter_account((ran.domain, None), intake);
    }
}

impl Node {
    /// A domain has caused so much work beside its packets: its share of the worker pays for it.
    pub fn worked_for(&mut self, domain: DomainId, cost: u64, now: u64) {
        self.cx.worked_for(domain, cost, now);
    }

    /// A process of a domain has used so much of the processor.
    pub fn used_apart(&mut self, domain: DomainId, cost: u64) {
        if let Some(known) = self.cx.core.domains.of(domain) {
            known.cpu_ns += cost;
        }
    }

    /// What a process has used, or will use for packets that it was just given, is paid by its domain's turns, as far as others wait.
    pub fn bill_apart(&mut self, domain: DomainId, cost: u64, now: u64) {
        if self.cx.core.domains.by_id(domain).is_none() {
            return;
        }
        if !self.cx.order.paths.knows(domain) {
            self.cx.enter_path(domain, now);
        }
        if let Some(scheduler) = &mut self.cx.order.paths.scheduler {
            scheduler.bill_apart(domain.index(), cost, now);
        }
    }

    /// How a domain with all below it stands beside others; nothing if it had no work yet, or nothing is divided by shares.
    pub fn standing(&self, domain: DomainId) -> Option<schedule::Standing> {
        let paths = &self.cx.order.paths;
        paths.scheduler.as_ref().filter(|_| paths.knows(domain))?.standing(domain.index())
    }

    /// What environments weigh together that had turns since the last interval was begun.
    pub fn served_weight(&self) -> u32 {
        self.cx.order.paths.scheduler.as_ref().map_or(0, PathScheduler::served_weight)
    }

    /// An interval of turns ends, and the next one begins.
    pub fn begin_interval(&mut self) {
        if let Some(scheduler) = &mut self.cx.order.paths.scheduler {
            scheduler.begin_interval();
        }
    }

    /// Whether a domain has had more of the worker than its share, while others wait.
    pub fn has_had_its_share(&self, domain: DomainId) -> bool {
        let paths = &self.cx.order.paths;
        paths.knows(domain) && paths.scheduler.as_ref().is_some_and(|scheduler| scheduler.is_ahead(domain.index()))
    }
}
