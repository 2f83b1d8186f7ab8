//! What is known of stacks that many events share.

use crate::Stack;
use alloc::collections::BTreeMap;

/// Frames of the stacks that are remembered at once.
const MOST_FRAMES: usize = 256 << 10;

/// Values by stack, found by where its frames are, without looking at them. Stacks with equal frames may have a value each.
#[derive(Debug)]
pub struct ByStack<V> {
    /// Each stack is held, so that no other comes to be at its address.
    known: BTreeMap<usize, (Stack, V)>,
    frames: usize,
}

impl<V> Default for ByStack<V> {
    fn default() -> Self {
        ByStack {
            known: BTreeMap::new(),
            frames: 0,
        }
    }
}

impl<V> ByStack<V> {
    #[inline]
    pub fn get(&self, stack: &Stack) -> Option<&V> {
        self.known.get(&stack.address()).map(|(_, value)| value)
    }

    /// The value of a stack, which `make` makes unless it is known.
    pub fn get_or_insert(&mut self, stack: &Stack, make: impl FnOnce(&Stack) -> V) -> &V {
        if self.frames > MOST_FRAMES {
            self.clear();
        }
        let frames = &mut self.frames;
        let known = self.known.entry(stack.address()).or_insert_with(|| {
            *frames += 1 + stack.len();
            (stack.clone(), make(stack))
        });
        &known.1
    }

    pub fn clear(&mut self) {
        self.known.clear();
        self.frames = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Frame;
    use alloc::vec;

    #[test]
    fn a_value_is_made_once_for_those_who_share_a_stack() {
        let stack = Stack::from([Frame::default()]);
        let mut lengths = ByStack::default();
        for shared in [stack.clone(), stack.clone()] {
            lengths.get_or_insert(&shared, |stack| stack.len());
        }
        assert_eq!(lengths.get(&stack), Some(&1));
        assert_eq!(*lengths.get_or_insert(&stack, |_| unreachable!()), 1);
        assert_eq!(lengths.get(&Stack::from([Frame::default()])), None);
    }

    #[test]
    fn ever_new_stacks_do_not_fill_the_memory() {
        let mut numbers = ByStack::default();
        for number in 0..10_000_u64 {
            let frame = Frame {
                address: number,
                ..Frame::default()
            };
            let stack = Stack::from(vec![frame; 128]);
            assert_eq!(*numbers.get_or_insert(&stack, |_| number), number);
        }
        assert!(numbers.known.len() * 129 <= MOST_FRAMES + 2 * 129);
    }
}
