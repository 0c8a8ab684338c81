//! Topic names, each written down once: everything behind the door works with their numbers.

use crate::error::SendError;
use parking_lot::RwLock;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

/// The longest name that Kafka accepts.
const LONGEST: usize = 249;

/// Every topic that was ever sent to, by number. A number is never given out twice, and a name is never forgotten: it costs
/// some dozens of bytes, and messages, receipts and views of the cluster may still mean it.
pub struct TopicNames {
    /// Tells this table's entries in a thread's cache from those of other producers.
    id: u64,
    table: RwLock<Table>,
}

#[derive(Default)]
struct Table {
    numbers: HashMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
}

/// An entry of a thread's cache.
struct Recent {
    table: u64,
    number: u32,
    name: Arc<str>,
}

/// Each name has one place in it, so that a look-up is one comparison.
const PLACES: usize = 32;

thread_local! {
    /// The topics that this thread sent to lately. Without it each call would touch a lock that all callers share.
    static RECENT: RefCell<[Option<Recent>; PLACES]> = const { RefCell::new([const { None }; PLACES]) };
}

impl Default for TopicNames {
    fn default() -> TopicNames {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        TopicNames { id: NEXT.fetch_add(1, Relaxed), table: RwLock::default() }
    }
}

impl TopicNames {
    pub fn new() -> TopicNames {
        TopicNames::default()
    }

    /// The number of this topic; a new one if the name was never seen. An error if Kafka would not accept the name.
    #[inline]
    pub fn intern(&self, name: &str) -> Result<u32, SendError> {
        let place = place_of(name.as_bytes());
        let known = RECENT.try_with(|recent| match &recent.borrow()[place] {
            Some(recent) if recent.table == self.id && is_same(&recent.name, name) => Some(recent.number),
            _ => None,
        });
        match known {
            Ok(Some(number)) => Ok(number),
            _ => self.look_up(name, place),
        }
    }

    #[cold]
    fn look_up(&self, name: &str, place: usize) -> Result<u32, SendError> {
        let known =
            self.table.read().numbers.get_key_value(name).map(|(name, number)| (name.clone(), *number));
        let (name, number) = match known {
            Some(known) => known,
            None => self.add(name)?,
        };
        // A thread that is ending may have lost its cache already: then it goes without.
        let _ = RECENT.try_with(|recent| {
            recent.borrow_mut()[place] = Some(Recent { table: self.id, number, name });
        });
        Ok(number)
    }

    fn add(&self, name: &str) -> Result<(Arc<str>, u32), SendError> {
        if let Some(reason) = fault_of(name) {
            return Err(SendError::InvalidTopic { reason });
        }
        let mut table = self.table.write();
        if let Some((name, number)) = table.numbers.get_key_value(name) {
            return Ok((name.clone(), *number)); // another thread was faster
        }
        let name: Arc<str> = name.into();
        let number = u32::try_from(table.names.len()).expect("fewer than 2^32 topics");
        table.names.push(name.clone());
        table.numbers.insert(name.clone(), number);
        Ok((name, number))
    }

    /// The name that got this number.
    ///
    /// # Panics
    /// If none did.
    pub fn name(&self, number: u32) -> Arc<str> {
        self.table.read().names[number as usize].clone()
    }

    /// How many there are; their numbers count from 0.
    pub fn len(&self) -> usize {
        self.table.read().names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for TopicNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TopicNames({})", self.len())
    }
}

/// Names often differ at their end only (`orders-1`, `orders-2`), so the last eight bytes choose the place.
#[inline]
fn place_of(name: &[u8]) -> usize {
    let tail = match name.last_chunk::<8>() {
        Some(tail) => u64::from_le_bytes(*tail),
        None => name.iter().fold(0, |tail, byte| tail << 8 | u64::from(*byte)),
    };
    let mixed = (tail ^ name.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize % PLACES
}

/// Compares by words: names are short, and a call of the library's comparison costs more than it does.
#[inline]
fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    match (one.last_chunk::<8>(), other.last_chunk::<8>()) {
        // The last word overlaps the one before it.
        (Some(last), Some(other_last)) => {
            last == other_last && one.chunks_exact(8).zip(other.chunks_exact(8)).all(|(a, b)| a == b)
        }
        _ => one.iter().zip(other).all(|(a, b)| a == b),
    }
}

/// What Kafka would find wrong with the name.
fn fault_of(name: &str) -> Option<&'static str> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    match name {
        "" => Some("it is empty"),
        "." | ".." => Some("`.` and `..` are no names"),
        _ if name.len() > LONGEST => Some("it is longer than 249 characters"),
        _ if !name.bytes().all(is_allowed) => {
            Some("it has characters other than ASCII letters, digits, `.`, `_` and `-`")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_numbers_in_every_thread() {
        let names = TopicNames::new();
        let all: Vec<String> = (0..200).map(|i| format!("topic-{i}")).collect();
        for _ in 0..2 {
            for (number, name) in all.iter().enumerate() {
                assert_eq!(names.intern(name), Ok(number as u32));
            }
        }
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for (number, name) in all.iter().enumerate().rev() {
                        assert_eq!(names.intern(name), Ok(number as u32));
                    }
                });
            }
        });
        assert_eq!(names.len(), 200);
        assert_eq!(&*names.name(7), "topic-7");
    }

    #[test]
    fn tables_do_not_mix_in_a_threads_cache() {
        let (one, other) = (TopicNames::new(), TopicNames::new());
        one.intern("a").unwrap();
        one.intern("b").unwrap();
        for _ in 0..2 {
            assert_eq!(other.intern("b"), Ok(0));
            assert_eq!(one.intern("b"), Ok(1));
        }
    }

    #[test]
    fn names_are_refused_as_kafka_refuses_them() {
        let names = TopicNames::new();
        let longest = "x".repeat(LONGEST);
        for good in ["a", "...", "A-z_0.9", longest.as_str()] {
            assert!(names.intern(good).is_ok(), "{good}");
        }
        let too_long = "x".repeat(LONGEST + 1);
        for bad in ["", ".", "..", "a b", "a/b", "ü", "a\0", too_long.as_str()] {
            assert!(matches!(names.intern(bad), Err(SendError::InvalidTopic { .. })), "{bad}");
        }
        assert_eq!(names.len(), 4);
    }
}
