//! Buffers of finished batches, kept for the next ones up to a bound: many idle partitions must not hold memory.

/// The smallest buffer: what a partition with a single small message holds.
pub const SMALLEST: usize = 1 << 10;

/// Sizes are powers of two from `SMALLEST` to 16 MiB; what is larger is not kept.
const CLASSES: usize = 15;

#[derive(Debug)]
pub struct BufferPool {
    /// By size; the last one given back is the first one used, because it is still in the cache.
    classes: [Vec<Vec<u8>>; CLASSES],
    held: usize,
    bound: usize,
}

impl BufferPool {
    pub fn new(bound: usize) -> BufferPool {
        BufferPool { classes: Default::default(), held: 0, bound }
    }

    fn class(len: usize) -> usize {
        (len.max(SMALLEST) / SMALLEST).next_power_of_two().trailing_zeros() as usize
    }

    /// A buffer of at least `len` bytes, at full length.
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let size = len.max(SMALLEST).next_power_of_two();
        match self.classes.get_mut(Self::class(size)).and_then(Vec::pop) {
            Some(buf) => {
                self.held -= buf.len();
                buf
            }
            None => vec![0; size],
        }
    }

    /// Gives one back; it is freed if there are enough, or if it has an odd size.
    pub fn give(&mut self, buf: Vec<u8>) {
        let ordinary = buf.len() >= SMALLEST && buf.len().is_power_of_two();
        if ordinary && self.held + buf.len() <= self.bound {
            if let Some(class) = self.classes.get_mut(Self::class(buf.len())) {
                self.held += buf.len();
                class.push(buf);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_comes_back_and_the_bound_holds() {
        let mut pool = BufferPool::new(10 << 10);
        for len in [1, SMALLEST, SMALLEST + 1, 5000] {
            let buf = pool.take(len);
            assert!(buf.len() >= len && buf.len() < 2 * len.max(SMALLEST));
            let (size, held) = (buf.len(), pool.held);
            pool.give(buf);
            assert_eq!(pool.held, held + size);
            assert_eq!(pool.take(len).len(), size);
            assert_eq!(pool.held, held);
        }
        for _ in 0..20 {
            pool.give(vec![0; SMALLEST]);
        }
        assert_eq!(pool.held, 10 << 10);
        pool.give(Vec::new());
        pool.give(vec![0; 3000]);
        assert_eq!(pool.held, 10 << 10);
    }
}
