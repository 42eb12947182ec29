//! An order in which nodes that are visited together lie together (Gorder: Wei, Yu, Lu, Lin: Speedup Graph Processing
//! by Graph Ordering, SIGMOD 2016).
//!
//! Nodes are placed one by one, each time the one that has most in common with the last [`WINDOW`]: edges between them,
//! and common in-neighbours. A node's score changes by one at a time. So a list of nodes for each score serves as the
//! priority queue, and every step costs the same.
//!
//! In-neighbours with very many edges have all nodes in common with each other: they cost most and say least, and
//! are passed over.

use crate::ops::Result;

/// Nodes that count as near: Gorder's choice.
const WINDOW: usize = 5;
/// Nodes placed between two looks at whether to go on.
const REPORT_EVERY: usize = 1024;
const NONE: usize = usize::MAX;

/// The old numbers in their new order. `first` and `neighbors` are compressed rows.
pub(super) fn gorder(
    first: &[usize],
    neighbors: &[usize],
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<Vec<usize>> {
    let nodes = first.len() - 1;
    let out = Rows { first, neighbors };
    let (in_first, in_neighbors) = transposed(first, neighbors);
    let into = Rows { first: &in_first, neighbors: &in_neighbors };
    let hub = 64 + nodes.isqrt();
    let mut queue = Queue::new(nodes);
    let mut order = Vec::with_capacity(nodes);
    // Begin where most edges arrive.
    let mut next = (0..nodes).max_by_key(|node| (into.of(*node).len(), usize::MAX - node));
    while let Some(node) = next {
        queue.remove(node);
        order.push(node);
        near(out, into, hub, node, |other| queue.change(other, true));
        if order.len() > WINDOW {
            let left = order[order.len() - 1 - WINDOW];
            near(out, into, hub, left, |other| queue.change(other, false));
        }
        if order.len().is_multiple_of(REPORT_EVERY) {
            go_on()?;
        }
        next = queue.best();
    }
    Ok(order)
}

#[derive(Clone, Copy)]
struct Rows<'a> {
    first: &'a [usize],
    neighbors: &'a [usize],
}

impl<'a> Rows<'a> {
    fn of(self, node: usize) -> &'a [usize] {
        &self.neighbors[self.first[node]..self.first[node + 1]]
    }
}

/// The rows of the reversed edges.
fn transposed(first: &[usize], neighbors: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let mut in_first = vec![0; first.len()];
    neighbors.iter().for_each(|target| in_first[target + 1] += 1);
    for node in 1..in_first.len() {
        in_first[node] += in_first[node - 1];
    }
    let mut place = in_first.clone();
    let mut in_neighbors = vec![0; neighbors.len()];
    for source in 0..first.len() - 1 {
        for target in &neighbors[first[source]..first[source + 1]] {
            in_neighbors[place[*target]] = source;
            place[*target] += 1;
        }
    }
    (in_first, in_neighbors)
}

/// Passes on every node that has something in common with this one, once for each thing.
fn near(out: Rows<'_>, into: Rows<'_>, hub: usize, node: usize, mut found: impl FnMut(usize)) {
    out.of(node).iter().for_each(|other| found(*other));
    for source in into.of(node) {
        found(*source);
        let siblings = out.of(*source);
        if siblings.len() <= hub {
            siblings.iter().for_each(|other| found(*other));
        }
    }
}

/// Nodes by score: a doubly linked list for each.
struct Queue {
    heads: Vec<usize>,
    next: Vec<usize>,
    previous: Vec<usize>,
    score: Vec<usize>,
    placed: Vec<bool>,
    /// No list above it has a node.
    top: usize,
}

impl Queue {
    fn new(nodes: usize) -> Queue {
        let mut queue = Queue {
            heads: vec![NONE],
            next: vec![NONE; nodes],
            previous: vec![NONE; nodes],
            score: vec![0; nodes],
            placed: vec![false; nodes],
            top: 0,
        };
        (0..nodes).rev().for_each(|node| queue.link(node));
        queue
    }

    fn link(&mut self, node: usize) {
        let score = self.score[node];
        if score >= self.heads.len() {
            self.heads.resize(score + 1, NONE);
        }
        let head = self.heads[score];
        (self.next[node], self.previous[node]) = (head, NONE);
        if head != NONE {
            self.previous[head] = node;
        }
        self.heads[score] = node;
        self.top = self.top.max(score);
    }

    fn unlink(&mut self, node: usize) {
        let (next, previous) = (self.next[node], self.previous[node]);
        match previous {
            NONE => self.heads[self.score[node]] = next,
            previous => self.next[previous] = next,
        }
        if next != NONE {
            self.previous[next] = previous;
        }
    }

    fn change(&mut self, node: usize, up: bool) {
        if self.placed[node] {
            return;
        }
        self.unlink(node);
        // Only a score that was given before is taken away.
        self.score[node] = if up { self.score[node] + 1 } else { self.score[node].saturating_sub(1) };
        self.link(node);
    }

    fn remove(&mut self, node: usize) {
        self.unlink(node);
        self.placed[node] = true;
    }

    fn best(&mut self) -> Option<usize> {
        while self.heads[self.top] == NONE && self.top > 0 {
            self.top -= 1;
        }
        Some(self.heads[self.top]).filter(|node| *node != NONE)
    }
}
