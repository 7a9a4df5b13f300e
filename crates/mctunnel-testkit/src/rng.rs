//! Numbers that look random and are the same in every run. Not for secrets.

/// SplitMix64: one word of state, full period, good enough to shuffle tests.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator whose every number follows from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent generator, so that one more draw here changes nothing there.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.word())
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        match high.saturating_sub(low).checked_add(1) {
            Some(span) => low + self.word() % span,
            None => self.word(),
        }
    }

    /// As [`Rng::within`], for sizes.
    pub fn size(&mut self, low: usize, high: usize) -> usize {
        let drawn = self.within(wide(low), wide(high));
        usize::try_from(drawn).unwrap_or(high)
    }

    /// A number from `low` to `high` whose magnitude is evenly spread: small ones are as likely as large ones.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let top = self.within(low.max(1), high.max(1)).ilog2();
        let bits = self.within(u64::from(low.max(1).ilog2()), u64::from(top));
        self.within(1 << bits, (2 << bits) - 1).clamp(low, high)
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.within(0, 99) < chance
    }

    /// One of the choices; the default when there is none.
    pub fn pick<T: Clone + Default>(&mut self, choices: &[T]) -> T {
        let index = self.size(0, choices.len().saturating_sub(1));
        choices.get(index).cloned().unwrap_or_default()
    }

    /// So many bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.word().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

fn wide(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_another_gives_others() {
        let draw = |seed| Rng::new(seed).bytes(32);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn numbers_stay_within_their_bounds_and_reach_them() {
        let mut rng = Rng::new(7);
        let drawn: Vec<u64> = (0..1000).map(|_| rng.within(3, 5)).collect();
        assert!((3..=5).all(|n| drawn.contains(&n)) && drawn.iter().all(|n| (3..=5).contains(n)));
        let drawn: Vec<u64> = (0..1000).map(|_| rng.magnitude(1, 1000)).collect();
        assert!(drawn.iter().all(|n| (1..=1000).contains(n)));
        assert!(drawn.iter().filter(|n| **n < 32).count() > 200, "small ones are common");
    }
}
