//! `bootstrap.servers`: a list of hosts and ports.

/// Kafka's usual port.
const PORT: u16 = 9092;

/// Whatever can name the first brokers: `"a:9092,b:9092"`, or an array, slice or vector of such texts.
pub trait BootstrapServers {
    /// As one text, separated by commas.
    fn into_list(self) -> String;
}

impl BootstrapServers for &str {
    fn into_list(self) -> String {
        self.to_owned()
    }
}

impl BootstrapServers for String {
    fn into_list(self) -> String {
        self
    }
}

impl BootstrapServers for &String {
    fn into_list(self) -> String {
        self.clone()
    }
}

fn join<S: AsRef<str>>(servers: &[S]) -> String {
    servers.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(",")
}

impl<S: AsRef<str>> BootstrapServers for &[S] {
    fn into_list(self) -> String {
        join(self)
    }
}

impl<S: AsRef<str>> BootstrapServers for Vec<S> {
    fn into_list(self) -> String {
        join(&self)
    }
}

impl<S: AsRef<str>> BootstrapServers for &Vec<S> {
    fn into_list(self) -> String {
        join(self)
    }
}

impl<S: AsRef<str>, const N: usize> BootstrapServers for [S; N] {
    fn into_list(self) -> String {
        join(&self)
    }
}

impl<S: AsRef<str>, const N: usize> BootstrapServers for &[S; N] {
    fn into_list(self) -> String {
        join(self)
    }
}

/// The hosts and ports in `text`, each once, in order.
pub fn parse(text: &str) -> Result<Vec<(String, u16)>, String> {
    let mut servers: Vec<(String, u16)> = Vec::new();
    for server in text.split(',').map(str::trim).filter(|server| !server.is_empty()) {
        let (host, port) = one(server)?;
        if !servers.iter().any(|(known, at)| *at == port && known.eq_ignore_ascii_case(&host)) {
            servers.push((host, port));
        }
    }
    if servers.is_empty() {
        return Err("not set: name at least one broker, as `host:9092`".to_owned());
    }
    Ok(servers)
}

fn one(server: &str) -> Result<(String, u16), String> {
    let wrong = |reason: &str| format!("`{server}` {reason}");
    let address = match server.split_once("://") {
        None => server,
        Some((protocol, address)) if protocol.eq_ignore_ascii_case("PLAINTEXT") => address,
        Some(_) => {
            return Err(wrong("names a protocol other than PLAINTEXT: TLS and SASL come in a later release"))
        }
    };
    let (host, port) = if let Some(rest) = address.strip_prefix('[') {
        let (host, behind) = rest.split_once(']').ok_or_else(|| wrong("has no `]`"))?;
        match behind.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if behind.is_empty() => (host, None),
            None => return Err(wrong("has something other than `:port` behind its `]`")),
        }
    } else {
        match address.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(wrong("has several colons: write IPv6 addresses as `[address]:port`"))
            }
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        }
    };
    if host.is_empty() {
        return Err(wrong("has no host"));
    }
    if !host.chars().all(|c| c.is_alphanumeric() || "-._%:".contains(c)) {
        return Err(wrong("is not `host:port`"));
    }
    let port = match port {
        None => PORT,
        Some(port) => match port.parse::<u16>() {
            Ok(port) if port != 0 => port,
            _ => return Err(wrong("has no port from 1 to 65535")),
        },
    };
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        for (text, expected) in [
            ("a:1", vec![("a", 1)]),
            ("a:1,b:2", vec![("a", 1), ("b", 2)]),
            (" a:1 , ,b:2, ", vec![("a", 1), ("b", 2)]),
            ("a", vec![("a", 9092)]),
            ("A:1,a:1,a:2", vec![("A", 1), ("a", 2)]),
            ("[::1]:7,[::1]", vec![("::1", 7), ("::1", 9092)]),
            ("[fe80::1%eth0]:9092", vec![("fe80::1%eth0", 9092)]),
            ("10.0.0.1:65535", vec![("10.0.0.1", 65535)]),
            ("PLAINTEXT://a:1", vec![("a", 1)]),
        ] {
            let expected: Vec<_> = expected.into_iter().map(|(h, p)| (h.to_owned(), p)).collect();
            assert_eq!(parse(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_host_and_port() {
        for (text, part) in [
            ("", "at least one"),
            (" , ", "at least one"),
            (":1", "no host"),
            ("[]:1", "no host"),
            ("a:", "no port"),
            ("a:0", "no port"),
            ("a:65536", "no port"),
            ("a:b", "no port"),
            ("::1", "[address]:port"),
            ("[::1", "no `]`"),
            ("[::1]9", "behind its `]`"),
            ("a b:1", "is not"),
            ("a/x:1", "is not"),
            ("SASL_SSL://a:1", "later release"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
