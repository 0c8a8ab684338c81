//! Zigzag varints, as Kafka's record format uses them.

/// The longest one: ten bytes hold 64 bits.
pub const MAX_LEN: usize = 10;

#[inline]
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// How many bytes `value` takes.
#[inline]
pub fn len(value: i64) -> usize {
    // Seven bits a byte; `| 1` because zero takes a byte too.
    (70 - (zigzag(value) | 1).leading_zeros() as usize) / 7
}

/// Writes `value` at the start of `out`; returns how many bytes it took.
#[inline]
pub fn put(out: &mut [u8], value: i64) -> usize {
    let mut rest = zigzag(value);
    let mut at = 0;
    while rest >= 0x80 {
        out[at] = rest as u8 | 0x80;
        rest >>= 7;
        at += 1;
    }
    out[at] = rest as u8;
    at + 1
}

/// Reads one from the front of `input`. None: cut off, or longer than 64 bits.
#[inline]
pub fn take(input: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = input.split_first()?;
        *input = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_taken() {
        let mut out = [0; MAX_LEN];
        for value in [0, -1, 1, 63, 64, -64, -65, 8191, 8192, i64::MAX, i64::MIN] {
            let written = put(&mut out, value);
            assert_eq!(written, len(value), "{value}");
            let mut rest = &out[..written];
            assert_eq!(take(&mut rest), Some(value));
            assert!(rest.is_empty());
            assert_eq!(take(&mut &out[..written - 1]), None);
        }
        assert_eq!(take(&mut &[0xff; 10][..]), None);
    }
}
