//! The text of a Java `.properties` file.

use std::iter::Peekable;
use std::str::Chars;

/// Names and values in the order of the file; the error says in which line it is wrong, and why.
///
/// As Java reads it: `#` and `!` begin a comment, a name ends at `=`, `:` or white space, a backslash escapes (`\t`, `\n`, `\r`, `\f`,
/// `\uXXXX`, or the character itself) and at the end of a line continues it, without the white space the next one begins with.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut properties = Vec::new();
    let mut lines = lines(text).enumerate();
    while let Some((number, first)) = lines.next() {
        let mut line = first.trim_start_matches(is_blank).to_owned();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        while is_continued(&line) {
            line.pop();
            let Some((_, next)) = lines.next() else { break };
            line.push_str(next.trim_start_matches(is_blank));
        }
        let property = split(&line).map_err(|reason| format!("line {}: {reason}", number + 1))?;
        properties.push(property);
    }
    Ok(properties)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

/// Lines end with `\n`, `\r` or both.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let all = rest?;
        let Some(end) = all.find(['\n', '\r']) else { return rest.take() };
        let behind = &all[end..];
        rest = Some(behind.strip_prefix("\r\n").unwrap_or(&behind[1..]));
        Some(&all[..end])
    })
}

/// Whether it ends with a backslash that is not itself escaped.
fn is_continued(line: &str) -> bool {
    line.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1
}

fn split(line: &str) -> Result<(String, String), String> {
    let mut chars = line.chars().peekable();
    let mut name = String::new();
    while let Some(c) = chars.next_if(|c| !is_blank(*c) && !matches!(c, '=' | ':')) {
        push(&mut name, c, &mut chars)?;
    }
    while chars.next_if(|c| is_blank(*c)).is_some() {}
    if chars.next_if(|c| matches!(c, '=' | ':')).is_some() {
        while chars.next_if(|c| is_blank(*c)).is_some() {}
    }
    let mut value = String::new();
    while let Some(c) = chars.next() {
        push(&mut value, c, &mut chars)?;
    }
    Ok((name, value))
}

fn push(out: &mut String, c: char, rest: &mut Peekable<Chars<'_>>) -> Result<(), String> {
    if c != '\\' {
        out.push(c);
        return Ok(());
    }
    match rest.next() {
        Some('t') => out.push('\t'),
        Some('n') => out.push('\n'),
        Some('r') => out.push('\r'),
        Some('f') => out.push('\u{c}'),
        Some('u') => out.push(unicode(rest)?),
        Some(other) => out.push(other),
        None => {} // the file ends with it
    }
    Ok(())
}

/// What follows `\u`: four hexadecimal digits, and for what UTF-16 needs two units for, another such escape.
fn unicode(rest: &mut Peekable<Chars<'_>>) -> Result<char, String> {
    let wrong = || "\\u without four hexadecimal digits, or half of a surrogate pair".to_owned();
    let first = unit(rest).ok_or_else(wrong)?;
    let second = if (0xd800..0xdc00).contains(&first) {
        if rest.next() != Some('\\') || rest.next() != Some('u') {
            return Err(wrong());
        }
        unit(rest)
    } else {
        None
    };
    char::decode_utf16(std::iter::once(first).chain(second)).next().and_then(Result::ok).ok_or_else(wrong)
}

fn unit(rest: &mut Peekable<Chars<'_>>) -> Option<u16> {
    (0..4).try_fold(0, |unit, _| Some(unit << 4 | rest.next()?.to_digit(16)? as u16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn as_java_reads_it() {
        for (text, expected) in [
            ("", &[][..]),
            ("a=b", &[("a", "b")]),
            ("a = b", &[("a", "b")]),
            ("a:b\nc : d\r\ne f\rg", &[("a", "b"), ("c", "d"), ("e", "f"), ("g", "")]),
            ("a = = b", &[("a", "= b")]),
            ("a  b=c", &[("a", "b=c")]),
            ("  # no\n\t! no\n\n \n a=# yes", &[("a", "# yes")]),
            ("a=b  ", &[("a", "b  ")]),
            ("a\\ b\\=c\\:=d", &[("a b=c:", "d")]),
            ("servers=a:1,\\\n   b:2,\\\r\n\tc:3\nacks=all", &[("servers", "a:1,b:2,c:3"), ("acks", "all")]),
            ("a=b\\\n# part of it", &[("a", "b# part of it")]),
            ("a=b\\\\\nc=d", &[("a", "b\\"), ("c", "d")]),
            ("# comment\\\na=b", &[("a", "b")]),
            ("a=b\\", &[("a", "b")]),
            ("a=b\\\n", &[("a", "b")]),
            ("a=\\t\\n\\r\\f\\q\\u00e9\\uD83D\\uDE00", &[("a", "\t\n\r\u{c}qé😀")]),
            ("a=b\\\n\n c=d", &[("a", "b"), ("c", "d")]),
            ("a\\\n =b", &[("a", "b")]),
            ("  \\\n a=b", &[("a", "b")]),
            ("\u{feff}a=b", &[("a", "b")]),
            ("=b", &[("", "b")]),
            ("a=1\na=2", &[("a", "1"), ("a", "2")]),
            ("pfad=Käse", &[("pfad", "Käse")]),
        ] {
            assert_eq!(parse(text), Ok(pairs(expected)), "{text:?}");
        }
    }

    #[test]
    fn broken_escapes_name_their_line() {
        for text in
            ["a=\\u12", "a=\\u12g4", "a=\\ud83d", "a=\\ud83d\\u0041", "a=\\ude00", "a=\\u+123", "\\uu0041=b"]
        {
            let error = parse(&format!("x=y\n\n{text}\nz=z")).expect_err(text);
            assert!(error.starts_with("line 3: \\u "), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ -~\\t\\n\\r\\\\u=:#é]{0,80}") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_escaped_comes_back(name in "[a-z.=: #!\\\\\\n\\t😀é]{0,12}", value in "[a-z.=: #!\\\\\\n\\t😀é]{0,12}") {
            let escape = |text: &str| -> String {
                text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
            };
            let read = parse(&format!("{}={}", escape(&name), escape(&value)));
            prop_assert_eq!(read, Ok(vec![(name, value)]));
        }
    }
}
