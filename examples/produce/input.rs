//! Lines of standard input, and what they are made of.

use std::io::{self, BufRead, Read};

/// What reading one line came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// It is in the buffer, without its newline.
    Whole,
    /// It has this many bytes, more than could ever be sent; they are skipped.
    TooLong(u64),
    /// There is no further line.
    End,
}

/// Reads the next line into `line`: all bytes up to the newline, nothing trimmed; the last one may lack its newline.
/// Keeps at most `limit` bytes of it.
pub(crate) fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>, limit: u64) -> io::Result<Line> {
    line.clear();
    if input.by_ref().take(limit + 1).read_until(b'\n', line)? == 0 {
        return Ok(Line::End);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() as u64 > limit {
        let mut bytes = line.len() as u64;
        line.clear();
        bytes += skip_line(input)?;
        return Ok(Line::TooLong(bytes));
    }
    Ok(Line::Whole)
}

/// Skips the rest of a line with its newline; returns how many bytes it had without.
fn skip_line(input: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            return Ok(skipped);
        }
        let newline = available.iter().position(|&byte| byte == b'\n');
        let bytes = newline.unwrap_or(available.len());
        skipped += bytes as u64;
        input.consume(bytes + usize::from(newline.is_some()));
        if newline.is_some() {
            return Ok(skipped);
        }
    }
}

/// How a line is taken apart: `timestamp SEPARATOR key SEPARATOR value`, each of the first two only if asked for.
#[derive(Debug, Default)]
pub(crate) struct Separators {
    pub(crate) timestamp: Option<Vec<u8>>,
    pub(crate) key: Option<Vec<u8>>,
}

/// What a line says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fields<'a> {
    pub(crate) timestamp: Option<i64>,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: &'a [u8],
}

impl Separators {
    /// Takes a line apart at the first separator of each kind; fails with what is wrong with its timestamp.
    pub(crate) fn split<'a>(&self, line: &'a [u8]) -> Result<Fields<'a>, &'static str> {
        let (timestamp, rest) = match &self.timestamp {
            None => (None, line),
            Some(separator) => {
                let (text, rest) = split_at(line, separator)
                    .ok_or("the line has no timestamp: no timestamp separator in it")?;
                (Some(milliseconds(text)?), rest)
            }
        };
        Ok(match self.key.as_deref().and_then(|separator| split_at(rest, separator)) {
            Some((key, value)) => Fields { timestamp, key: Some(key), value },
            None => Fields { timestamp, key: None, value: rest },
        })
    }
}

/// Digits only: what isn't a number of milliseconds is told, not guessed.
fn milliseconds(text: &[u8]) -> Result<i64, &'static str> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or("what is before the timestamp separator is not a number of milliseconds since 1970")
}

fn split_at<'a>(line: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = match separator {
        [byte] => line.iter().position(|b| b == byte),
        _ => line.windows(separator.len()).position(|window| window == separator),
    }?;
    Some((&line[..at], &line[at + separator.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8], limit: u64) -> Vec<Result<Vec<u8>, u64>> {
        // Two bytes at a time: lines and skips must not depend on where the reads end.
        let mut input = io::BufReader::with_capacity(2, input);
        let (mut line, mut lines) = (Vec::new(), Vec::new());
        loop {
            match read_line(&mut input, &mut line, limit).unwrap() {
                Line::Whole => lines.push(Ok(line.clone())),
                Line::TooLong(bytes) => lines.push(Err(bytes)),
                Line::End => return lines,
            }
        }
    }

    fn ok(line: &[u8]) -> Result<Vec<u8>, u64> {
        Ok(line.to_vec())
    }

    #[test]
    fn lines_are_all_bytes_up_to_the_newline() {
        assert_eq!(lines(b"", 9), []);
        assert_eq!(lines(b"\n", 9), [ok(b"")]);
        assert_eq!(lines(b"a\r\n\n \0\xff \nlast", 9), [ok(b"a\r"), ok(b""), ok(b" \0\xff "), ok(b"last")]);
    }

    #[test]
    fn a_line_above_the_limit_is_skipped_and_the_next_one_is_not() {
        assert_eq!(lines(b"1234\n12345\n1\n", 4), [ok(b"1234"), Err(5), ok(b"1")]);
        assert_eq!(lines(b"123456789", 4), [Err(9)]);
        assert_eq!(lines(b"12345\n", 4), [Err(5)]);
        assert_eq!(lines(b"123456\n\n", 4), [Err(6), ok(b"")]);
    }

    fn split(timestamp: Option<&str>, key: Option<&str>, line: &[u8]) -> Result<String, &'static str> {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let separators = Separators { timestamp: timestamp.map(bytes), key: key.map(bytes) };
        let fields = separators.split(line)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(format!("{:?} {:?} {}", fields.timestamp, fields.key.map(text), text(fields.value)))
    }

    #[test]
    fn a_line_is_split_at_the_first_separator() {
        assert_eq!(split(None, Some(":"), b"k:v:w").unwrap(), r#"None Some("k") v:w"#);
        assert_eq!(split(None, Some(":"), b":v").unwrap(), r#"None Some("") v"#);
        assert_eq!(split(None, Some(":"), b"k:").unwrap(), r#"None Some("k") "#);
        assert_eq!(split(None, Some(":"), b"v").unwrap(), "None None v");
        assert_eq!(split(None, Some("::"), b"a:b::c").unwrap(), r#"None Some("a:b") c"#);
        assert_eq!(split(Some("|"), None, b"17|a|b").unwrap(), "Some(17) None a|b");
        assert_eq!(split(Some(":"), Some(":"), b"17:k:v").unwrap(), r#"Some(17) Some("k") v"#);
        assert_eq!(split(Some(":"), Some(":"), b"17:v").unwrap(), "Some(17) None v");
    }

    #[test]
    fn a_line_without_a_readable_timestamp_is_told() {
        assert!(split(Some("|"), None, b"no timestamp").is_err());
        assert!(split(Some("|"), None, b"|v").is_err());
        assert!(split(Some("|"), None, b" 17|v").is_err());
        assert!(split(Some("|"), None, b"\xff|v").is_err());
        assert!(split(Some("|"), None, b"9223372036854775808|v").is_err());
    }
}
