//! The primitive types of Kafka's protocol, read from bytes that are not trusted and written to a `Vec<u8>`.

use std::fmt;

/// What is wrong with some bytes, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

/// A topic's id; all zero: none.
pub type Uuid = [u8; 16];

/// Where an array says that it is long, this many items are made room for at once; the rest as they are really there.
const ROOM_AT_ONCE: usize = 256;

/// Reads a message from front to back. Every length is checked against the bytes that are there before it is believed.
///
/// A flexible version writes its lengths as varints and has tagged fields; which one it is, is said once at the start.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    flexible: bool,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], flexible: bool) -> Reader<'a> {
        Reader { rest: bytes, flexible }
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// That was all: anything left is an error.
    pub fn end(self, what: &str) -> Result<(), Malformed> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(Malformed(format!("{what}: {left} bytes too many"))),
        }
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize, what: &str) -> Result<&'a [u8], Malformed> {
        match self.rest.split_at_checked(len) {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(bytes)
            }
            None => Err(Malformed(format!("{what}: {len} bytes expected, {} left", self.rest.len()))),
        }
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Malformed> {
        match self.rest.split_first_chunk::<N>() {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(*bytes)
            }
            None => Err(Malformed(format!("{what}: {N} bytes expected, {} left", self.rest.len()))),
        }
    }

    pub fn i8(&mut self, what: &str) -> Result<i8, Malformed> {
        self.array(what).map(i8::from_be_bytes)
    }

    pub fn i16(&mut self, what: &str) -> Result<i16, Malformed> {
        self.array(what).map(i16::from_be_bytes)
    }

    pub fn i32(&mut self, what: &str) -> Result<i32, Malformed> {
        self.array(what).map(i32::from_be_bytes)
    }

    pub fn i64(&mut self, what: &str) -> Result<i64, Malformed> {
        self.array(what).map(i64::from_be_bytes)
    }

    pub fn uuid(&mut self, what: &str) -> Result<Uuid, Malformed> {
        self.array(what)
    }

    /// Anything but zero is true, as brokers read it.
    pub fn bool(&mut self, what: &str) -> Result<bool, Malformed> {
        self.i8(what).map(|byte| byte != 0)
    }

    /// An unsigned varint of at most 32 bits.
    pub fn unsigned_varint(&mut self, what: &str) -> Result<u32, Malformed> {
        let mut value = 0u32;
        for shift in (0..35).step_by(7) {
            let [byte] = self.array(what)?;
            let bits = u32::from(byte & 0x7f);
            if shift == 28 && bits > 0xf {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed(format!("{what}: a varint of more than 32 bits")))
    }

    /// A length or count. None: null.
    fn len(&mut self, short: bool, what: &str) -> Result<Option<usize>, Malformed> {
        let len = match (self.flexible, short) {
            (true, _) => i64::from(self.unsigned_varint(what)?) - 1,
            (false, true) => i64::from(self.i16(what)?),
            (false, false) => i64::from(self.i32(what)?),
        };
        match len {
            -1 => Ok(None),
            len => match usize::try_from(len) {
                Ok(len) => Ok(Some(len)),
                Err(_) => Err(Malformed(format!("{what}: a length of {len}"))),
            },
        }
    }

    pub fn nullable_string(&mut self, what: &str) -> Result<Option<&'a str>, Malformed> {
        let Some(len) = self.len(true, what)? else { return Ok(None) };
        let bytes = self.bytes(len, what)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Malformed(format!("{what}: not UTF-8"))),
        }
    }

    pub fn string(&mut self, what: &str) -> Result<&'a str, Malformed> {
        self.nullable_string(what)?.ok_or_else(|| Malformed(format!("{what}: null")))
    }

    /// How many items follow. `at_least`: bytes that the smallest item takes, at least one: a count that can't fit into
    /// what is left is an error here, before anything is made of it. None: null.
    pub fn nullable_count(&mut self, at_least: usize, what: &str) -> Result<Option<usize>, Malformed> {
        let Some(count) = self.len(false, what)? else { return Ok(None) };
        if count > self.rest.len() / at_least.max(1) {
            return Err(Malformed(format!("{what}: {count} announced, {} bytes left", self.rest.len())));
        }
        Ok(Some(count))
    }

    pub fn count(&mut self, at_least: usize, what: &str) -> Result<usize, Malformed> {
        self.nullable_count(at_least, what)?.ok_or_else(|| Malformed(format!("{what}: null")))
    }

    /// An array.
    pub fn items<T>(
        &mut self,
        at_least: usize,
        what: &str,
        mut item: impl FnMut(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.count(at_least, what)?;
        let mut items = Vec::with_capacity(count.min(ROOM_AT_ONCE));
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    pub fn i32s(&mut self, what: &str) -> Result<Vec<i32>, Malformed> {
        self.items(4, what, |reader| reader.i32(what))
    }

    /// Tagged fields, nothing where the version has none. `field` gets each one's number and its bytes alone; what it does
    /// not know it leaves.
    pub fn tags(
        &mut self,
        mut field: impl FnMut(u32, &mut Reader<'a>) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        if !self.flexible {
            return Ok(());
        }
        let count = self.unsigned_varint("number of tagged fields")?;
        // The smallest takes two bytes; a count that lies is found out when they run out.
        for _ in 0..count {
            let tag = self.unsigned_varint("tag")?;
            let len = self.unsigned_varint("length of a tagged field")?;
            let bytes = self.bytes(len as usize, "tagged field")?;
            field(tag, &mut Reader::new(bytes, true))?;
        }
        Ok(())
    }

    pub fn skip_tags(&mut self) -> Result<(), Malformed> {
        self.tags(|_, _| Ok(()))
    }
}

pub fn put_i16(out: &mut Vec<u8>, value: i16) {
    out.extend(value.to_be_bytes());
}

pub fn put_i32(out: &mut Vec<u8>, value: i32) {
    out.extend(value.to_be_bytes());
}

pub fn put_i64(out: &mut Vec<u8>, value: i64) {
    out.extend(value.to_be_bytes());
}

pub fn put_bool(out: &mut Vec<u8>, value: bool) {
    out.push(u8::from(value));
}

pub fn put_unsigned_varint(out: &mut Vec<u8>, value: u32) {
    let mut rest = value;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// At most `i16::MAX` bytes, the limit of the format; what is longer is cut there. The settings and the intake let nothing
/// longer through.
pub fn put_string(out: &mut Vec<u8>, value: &str, flexible: bool) {
    let mut end = value.len().min(i16::MAX as usize);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    if flexible {
        put_unsigned_varint(out, end as u32 + 1);
    } else {
        put_i16(out, end as i16);
    }
    out.extend(&value.as_bytes()[..end]);
}

pub fn put_null_string(out: &mut Vec<u8>, flexible: bool) {
    if flexible {
        out.push(0);
    } else {
        put_i16(out, -1);
    }
}

/// The count in front of an array's items.
pub fn put_count(out: &mut Vec<u8>, count: usize, flexible: bool) {
    if flexible {
        put_unsigned_varint(out, count as u32 + 1);
    } else {
        put_i32(out, count as i32);
    }
}

/// No tagged fields; nothing where the version has none.
pub fn put_no_tags(out: &mut Vec<u8>, flexible: bool) {
    if flexible {
        out.push(0);
    }
}
