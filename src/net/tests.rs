//! The shell on real sockets. The other side is driven by the test itself, step by step; nothing sleeps and hopes.

use super::*;
use crate::protocol::frame::Frame;
use socket2::SockRef;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// What was told, to compare with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Opened(u64),
    Frame(u64, Vec<u8>),
    Written(u64, u64, u64),
    Closed(u64, CloseReason),
    Resolved(u64, Result<Vec<SocketAddr>, String>),
    Compressed(u64),
}

fn told(event: Event<'_>) -> Told {
    match event {
        Event::Opened { conn } => Told::Opened(conn.0),
        Event::Frame { conn, frame } => Told::Frame(conn.0, frame.to_vec()),
        Event::Written { conn, begun, done } => Told::Written(conn.0, begun, done),
        Event::Closed { conn, reason } => Told::Closed(conn.0, reason),
        Event::Resolved { conn, result } => Told::Resolved(conn.0, result),
        Event::Compressed(done) => Told::Compressed(done.job),
        other => panic!("not of the shell: {other:?}"),
    }
}

/// The shell with its poll, as the worker has it.
struct Shell {
    poll: mio::Poll,
    events: mio::Events,
    net: Net,
    log: Vec<Told>,
}

impl Shell {
    fn new() -> Shell {
        Shell::with(SocketBuffers::default())
    }

    fn with(buffers: SocketBuffers) -> Shell {
        let poll = mio::Poll::new().unwrap();
        let waker = mio::Waker::new(poll.registry(), Token(usize::MAX)).unwrap();
        let chores = Chores {
            resolve: |host, _| Err(format!("{host}?")),
            compress: |job| Ok(job.records[..job.used].to_vec()),
        };
        let registry = poll.registry().try_clone().unwrap();
        let net = Net::new(registry, buffers, chores, Arc::new(move || waker.wake().unwrap()));
        Shell { poll, events: mio::Events::with_capacity(64), net, log: Vec::new() }
    }

    /// Waits for the poll to say something (or not at all).
    fn poll(&mut self, timeout: Duration) {
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(e) if e.kind() != ErrorKind::Interrupted => panic!("{e}"),
            _ => self.net.note(&self.events),
        }
    }

    fn receive(&mut self) {
        self.net.receive(&mut |event| self.log.push(told(event)));
    }

    fn transmit(&mut self) {
        self.net.transmit(&mut |event| self.log.push(told(event)));
    }

    fn turn(&mut self, timeout: Duration) {
        let timeout = if self.net.has_work() { Duration::ZERO } else { timeout };
        self.poll(timeout);
        self.receive();
        self.transmit();
    }

    /// Turns until the log says so; returns the log, and begins a new one.
    fn until(&mut self, mut enough: impl FnMut(&[Told]) -> bool) -> Vec<Told> {
        let end = Instant::now() + PATIENCE;
        while !enough(&self.log) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited for more than {:?}", self.log);
            self.turn(left);
        }
        std::mem::take(&mut self.log)
    }

    fn until_last(&mut self, last: &Told) -> Vec<Told> {
        self.until(|log| log.last() == Some(last))
    }

    /// Lets everything happen that is going to: returns what was told of it.
    fn settle(&mut self) -> Vec<Told> {
        for _ in 0..5 {
            self.turn(Duration::from_millis(1));
        }
        std::mem::take(&mut self.log)
    }

    fn open(&mut self, conn: u64, listener: &TcpListener) -> TcpStream {
        self.net.perform(NetAction::Open { conn: ConnId(conn), addr: listener.local_addr().unwrap() });
        let (peer, _) = listener.accept().unwrap();
        peer.set_nodelay(true).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        peer.set_write_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(self.until_last(&Told::Opened(conn)), [Told::Opened(conn)]);
        peer
    }

    fn send(&mut self, conn: u64, frame: &Frame) {
        self.net.perform(NetAction::Send { conn: ConnId(conn), frame: frame.clone() });
    }

    fn close(&mut self, conn: u64) {
        self.net.perform(NetAction::Close { conn: ConnId(conn) });
    }
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn frame(body: &[u8]) -> Frame {
    let mut frame = Frame::new(body.len());
    frame.framing().extend(body);
    frame.finish()
}

/// Many pieces, with records between them, each byte to be told from its neighbours.
fn large_frame(bytes: usize) -> Frame {
    let mut frame = Frame::new(64);
    for piece in 0..300 {
        frame.framing().extend(format!("piece {piece}").bytes());
        let records: Vec<u8> = (0..bytes / 300).map(|i| (i * 7 + piece) as u8).collect();
        let used = records.len();
        frame.insert(Arc::new(records), used);
    }
    frame.finish()
}

fn answer(body: &[u8]) -> Vec<u8> {
    [&(body.len() as i32).to_be_bytes(), body].concat()
}

fn closed(conn: u64) -> impl FnMut(&[Told]) -> bool {
    move |log| matches!(log.last(), Some(Told::Closed(c, _)) if *c == conn)
}

#[test]
fn requests_go_out_and_answers_come_in() {
    let (mut shell, listener) = (Shell::new(), listener());
    let mut peer = shell.open(1, &listener);
    for round in 1..=3u64 {
        let request = frame(format!("request {round}").as_bytes());
        shell.send(1, &request);
        assert_eq!(shell.until_last(&Told::Written(1, round, round)).len(), 1);
        let mut got = vec![0; request.len()];
        peer.read_exact(&mut got).unwrap();
        assert_eq!(got, request.to_vec());
        peer.write_all(&answer(&got)).unwrap();
        shell.until_last(&Told::Frame(1, got));
    }
}

#[test]
fn a_peer_that_does_not_read_holds_up_only_itself() {
    let mut shell = Shell::with(SocketBuffers { send_bytes: Some(128 << 10), receive_bytes: None });
    let listener = listener();
    let mut slow = shell.open(1, &listener);
    let mut quick = shell.open(2, &listener);
    let large = large_frame(16 << 20);
    shell.send(1, &large);
    shell.send(1, &frame(b"behind"));
    assert_eq!(shell.until_last(&Told::Written(1, 1, 0)), [Told::Written(1, 1, 0)]);
    assert_eq!(shell.settle(), []); // the socket is full: no more to tell, and nothing to do
    assert!(!shell.net.has_work());

    shell.send(2, &frame(b"hello"));
    shell.until_last(&Told::Written(2, 1, 1));
    quick.write_all(&answer(b"hi")).unwrap();
    shell.until_last(&Told::Frame(2, b"hi".to_vec()));

    let reader = std::thread::spawn(move || {
        let mut got = vec![0; large.len() + 10];
        slow.read_exact(&mut got).unwrap();
        assert_eq!(got, [large.to_vec(), frame(b"behind").to_vec()].concat());
    });
    let log = shell.until_last(&Told::Written(1, 2, 2));
    reader.join().unwrap();
    for written in log {
        assert!(matches!(written, Told::Written(1, 1, 0..=1) | Told::Written(1, 2, 1..=2)), "{written:?}");
    }
}

#[test]
fn many_requests_leave_together_and_in_order() {
    let (mut shell, listener) = (Shell::new(), listener());
    let mut peer = shell.open(1, &listener);
    let mut expected = Vec::new();
    for number in 0..1000u32 {
        let request = frame(&number.to_be_bytes());
        expected.extend(request.to_vec());
        shell.send(1, &request);
    }
    shell.until_last(&Told::Written(1, 1000, 1000));
    let mut got = vec![0; expected.len()];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(got, expected);
}

#[test]
fn answers_cut_at_every_byte() {
    let (mut shell, listener) = (Shell::new(), listener());
    let mut peer = shell.open(1, &listener);
    let bytes = [answer(b"one"), answer(b""), answer(b"three")].concat();
    for byte in bytes {
        peer.write_all(&[byte]).unwrap();
        // The poll does not come back before this byte is there.
        shell.poll(PATIENCE);
        shell.receive();
    }
    let expected = [&b"one"[..], b"", b"three"].map(|body| Told::Frame(1, body.to_vec()));
    assert_eq!(shell.until(|log| log.len() == 3), expected);
}

#[test]
fn many_answers_in_one_read() {
    let (mut shell, listener) = (Shell::new(), listener());
    let mut peer = shell.open(1, &listener);
    let bodies: Vec<Vec<u8>> = (0..500u32).map(|i| i.to_be_bytes().repeat(i as usize % 9)).collect();
    let bytes: Vec<u8> = bodies.iter().flat_map(|body| answer(body)).collect();
    peer.write_all(&bytes).unwrap();
    let log = shell.until(|log| log.len() == bodies.len());
    assert_eq!(log, bodies.into_iter().map(|body| Told::Frame(1, body)).collect::<Vec<_>>());
}

#[test]
fn a_large_answer_comes_whole() {
    let (mut shell, listener) = (Shell::new(), listener());
    let mut peer = shell.open(1, &listener);
    let body: Vec<u8> = (0..20_000_000u32).map(|i| (i / 3) as u8).collect();
    let sent = answer(&body);
    let writer = std::thread::spawn(move || peer.write_all(&sent).map(|()| peer).unwrap());
    let log = shell.until(|log| !log.is_empty());
    drop(writer.join().unwrap());
    assert!(log == [Told::Frame(1, body)], "not what was sent");
}

#[test]
fn hostile_lengths_end_the_connection() {
    for (bytes, expected) in [
        (i32::MAX.to_be_bytes().to_vec(), CloseReason::BadLength(i32::MAX)),
        ((-1i32).to_be_bytes().to_vec(), CloseReason::BadLength(-1)),
        (i32::MIN.to_be_bytes().to_vec(), CloseReason::BadLength(i32::MIN)),
        (
            vec![0x15, 3, 3, 0, 2, 2, 0x50],
            CloseReason::NotKafka("the port speaks TLS, this client plain text"),
        ),
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            CloseReason::NotKafka("the port answers HTTP, it is no Kafka broker"),
        ),
    ] {
        let (mut shell, listener) = (Shell::new(), listener());
        let mut peer = shell.open(1, &listener);
        // What follows the length is never read.
        peer.write_all(&[bytes, answer(b"not an answer")].concat()).unwrap();
        assert_eq!(shell.until(closed(1)), [Told::Closed(1, expected)]);
        // Gone: closed with unread bytes, or without.
        assert!(matches!(peer.read(&mut [0]), Ok(0) | Err(_)));
        assert_eq!(shell.settle(), []);
    }
}

#[test]
fn closed_in_the_middle_of_a_frame() {
    let (mut shell, listener) = (Shell::new(), listener());
    let mut peer = shell.open(1, &listener);
    let whole = answer(b"whole");
    peer.write_all(&[&whole[..], &answer(b"not whole")[..9]].concat()).unwrap();
    peer.shutdown(Shutdown::Both).unwrap();
    // Bytes and end may be there at once: one event for both, and the end must not be missed behind a short read.
    let expected = [Told::Frame(1, b"whole".to_vec()), Told::Closed(1, CloseReason::Eof)];
    assert_eq!(shell.until(closed(1)), expected);
    assert_eq!(shell.settle(), []);
}

/// What has arrived is read, whatever became of the connection meanwhile: an answer that is here makes an attempt known.
#[cfg(target_os = "linux")]
#[test]
fn an_answer_is_not_lost_to_a_write_that_fails() {
    let (mut shell, listener) = (Shell::new(), listener());
    let mut peer = shell.open(1, &listener);
    shell.send(1, &frame(b"first"));
    shell.until_last(&Told::Written(1, 1, 1));
    peer.write_all(&answer(b"answer")).unwrap();
    // Closed with an unread request: a reset, not an orderly end.
    drop(peer);
    shell.send(1, &frame(b"second"));
    shell.transmit(); // fails, before anything of the answer was read
    assert_eq!(shell.log, []);
    let log = shell.until(closed(1));
    assert_eq!(log[0], Told::Frame(1, b"answer".to_vec()));
    assert!(matches!(&log[1..], [Told::Closed(1, CloseReason::Io(_))]), "{log:?}");
}

#[test]
fn nobody_listens() {
    let mut shell = Shell::new();
    let addr = listener().local_addr().unwrap();
    shell.net.perform(NetAction::Open { conn: ConnId(1), addr });
    assert_eq!(shell.until(closed(1)), [Told::Closed(1, CloseReason::Refused)]);
}

#[test]
fn an_address_that_the_system_refuses_at_once() {
    let mut shell = Shell::new();
    // TCP knows no broadcast.
    shell.net.perform(NetAction::Open { conn: ConnId(1), addr: "255.255.255.255:9092".parse().unwrap() });
    let log = shell.until(closed(1));
    assert!(matches!(&log[..], [Told::Closed(1, CloseReason::Io(_))]), "{log:?}");
}

#[test]
fn a_socket_connected_to_itself_is_nobody() {
    // Not to be had by chance: bound and connected to one address.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    let own = socket.local_addr().unwrap();
    socket.connect(&own).unwrap();
    socket.set_nonblocking(true).unwrap();
    let stream = Stream::Plain(mio::net::TcpStream::from_std(socket.into()));
    assert_eq!(stream.is_connected().unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn after_close_nothing_is_told_in_any_state() {
    let (mut shell, listener) = (Shell::new(), listener());
    // Connecting.
    shell.net.perform(NetAction::Open { conn: ConnId(1), addr: listener.local_addr().unwrap() });
    shell.close(1);
    // Failed at once.
    shell.net.perform(NetAction::Open { conn: ConnId(2), addr: "255.255.255.255:1".parse().unwrap() });
    shell.close(2);
    // Resolving.
    shell.net.perform(NetAction::Resolve { conn: ConnId(3), host: "127.0.0.1".into(), port: 1 });
    shell.close(3);
    assert_eq!(shell.settle(), []);
    drop(listener.accept().unwrap());
    // Open, half a frame written, an answer there.
    let mut peer = shell.open(4, &listener);
    let large = large_frame(32 << 20);
    shell.send(4, &large);
    shell.until_last(&Told::Written(4, 1, 0));
    peer.write_all(&answer(b"too late")).unwrap();
    shell.poll(PATIENCE);
    shell.close(4);
    assert_eq!(shell.settle(), []);
    assert!(!shell.net.has_work() && shell.net.connections.is_empty());
    // The frame is cut, and its end never comes.
    let mut got = Vec::new();
    let _ = peer.read_to_end(&mut got); // an end, or a reset: either is one
    assert!(got.len() < large.len());
    // What is sent to it now goes nowhere.
    shell.send(4, &frame(b"x"));
    assert_eq!(shell.settle(), []);
}

#[test]
fn a_busy_connection_does_not_starve_a_quiet_one() {
    let (mut shell, listener) = (Shell::new(), listener());
    let mut busy = shell.open(1, &listener);
    let mut quiet = shell.open(2, &listener);
    // As much as fits on the way.
    busy.set_nonblocking(true).unwrap();
    let flood = answer(&[5; 1020]).repeat(1024);
    let mut sent = 0;
    loop {
        match busy.write(&flood[sent % 1024..]) {
            Ok(count) => sent += count,
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            Err(e) => panic!("{e}"),
        }
    }
    assert!(sent > 1 << 20, "only {sent} bytes fit on the way");
    quiet.write_all(&answer(b"me too")).unwrap();
    // Both are in the poll by now; how many turns until the quiet one is heard?
    let mut turns = 0;
    let mut of_busy = 0;
    while !shell.log.contains(&Told::Frame(2, b"me too".to_vec())) {
        shell.log.clear();
        shell.turn(PATIENCE);
        of_busy += shell.log.iter().filter(|told| matches!(told, Told::Frame(1, _))).count();
        turns += 1;
    }
    assert!(turns <= 2, "{turns} turns");
    assert!(of_busy <= turns * 300, "{of_busy} frames of the busy one in {turns} turns");
    // And nothing of the busy one is forgotten.
    let mut left = sent / 1024 - of_busy;
    shell.log.clear();
    while left > 0 {
        shell.turn(PATIENCE);
        left -= shell.log.drain(..).filter(|told| matches!(told, Told::Frame(1, _))).count();
    }
}

#[test]
fn many_connections_at_once() {
    const CONNECTIONS: u64 = 150;
    let (mut shell, listener) = (Shell::new(), listener());
    let mut peers: Vec<TcpStream> = (1..=CONNECTIONS).map(|conn| shell.open(conn, &listener)).collect();
    for round in 1..=3u64 {
        let body = |conn: u64| format!("{round} of {conn}").into_bytes();
        (1..=CONNECTIONS).for_each(|conn| shell.send(conn, &frame(&body(conn))));
        shell.until(|log| log.len() == CONNECTIONS as usize);
        for peer in &mut peers {
            let mut got = vec![0; 4];
            peer.read_exact(&mut got).unwrap();
            got.resize(4 + i32::from_be_bytes(got[..4].try_into().unwrap()) as usize, 0);
            peer.read_exact(&mut got[4..]).unwrap();
            peer.write_all(&got).unwrap();
        }
        let mut log = shell.until(|log| log.len() == CONNECTIONS as usize);
        log.sort_by_key(|told| match told {
            Told::Frame(conn, _) => *conn,
            other => panic!("{other:?}"),
        });
        let expected: Vec<_> = (1..=CONNECTIONS).map(|conn| Told::Frame(conn, body(conn))).collect();
        assert_eq!(log, expected);
    }
    drop(peers);
    let log = shell.until(|log| log.len() == CONNECTIONS as usize);
    assert!(log.iter().all(|told| matches!(told, Told::Closed(_, CloseReason::Eof))), "{log:?}");
    assert!(shell.net.connections.is_empty());
}

#[test]
fn an_idle_shell_is_asleep() {
    let (mut shell, listener) = (Shell::new(), listener());
    let mut peer = shell.open(1, &listener);
    shell.send(1, &frame(b"x"));
    shell.until_last(&Told::Written(1, 1, 1));
    peer.write_all(&answer(b"y")).unwrap();
    shell.until_last(&Told::Frame(1, b"y".to_vec()));
    assert_eq!(shell.settle(), []);
    assert!(!shell.net.has_work());
    // No event either: nobody has to be woken for nothing.
    shell.poll.poll(&mut shell.events, Some(Duration::from_millis(50))).unwrap();
    assert!(shell.events.is_empty());
}

#[test]
fn names_and_batches_come_back_and_wake() {
    let mut shell = Shell::new();
    shell.net.perform(NetAction::Resolve { conn: ConnId(1), host: "127.0.0.1".into(), port: 9092 });
    shell.until_last(&Told::Resolved(1, Ok(vec!["127.0.0.1:9092".parse().unwrap()])));
    shell.net.perform(NetAction::Resolve { conn: ConnId(2), host: "kafka".into(), port: 9092 });
    shell.until_last(&Told::Resolved(2, Err("kafka?".into())));
    let codec = crate::protocol::compression::Codec::Lz4;
    shell.net.compress(CompressJob {
        job: 3,
        codec,
        level: None,
        records: std::sync::Arc::new(vec![1, 2]),
        used: 2,
    });
    shell.until_last(&Told::Compressed(3));
}

#[test]
fn sockets_are_set_up() {
    let listener = listener();
    let buffers = SocketBuffers { send_bytes: Some(32 << 10), receive_bytes: Some(48 << 10) };
    let stream = Stream::connect(listener.local_addr().unwrap(), buffers).unwrap();
    let Stream::Plain(socket) = &stream;
    let socket = SockRef::from(socket);
    assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
    // Linux doubles what it is asked for.
    assert!((32 << 10..=64 << 10).contains(&socket.send_buffer_size().unwrap()));
    assert!((48 << 10..=96 << 10).contains(&socket.recv_buffer_size().unwrap()));
}
