//! A broker that reads no faster than it was told: the embedded cluster's model behind sockets of its own.

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use socket2::{Domain, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use steadfast::internal::model::partition::TopicConfig;
use steadfast::internal::model::request::Request;
use steadfast::internal::model::{Model, Options, Step, Then};

pub(crate) struct Sink {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    model: Mutex<Model>,
    pace: Mutex<Pace>,
    changed: Condvar,
}

struct Pace {
    bytes_per_second: f64,
    /// When the next byte may be read.
    next: Instant,
    /// Bytes read so far, and for how long there was nothing to read.
    bytes: u64,
    idle: Duration,
    stopped: bool,
    open: Vec<TcpStream>,
}

/// Read at once.
const PIECE: usize = 16 << 10;

/// Being ahead of its pace by no more than this is not worth a sleep.
const GRAIN: Duration = Duration::from_millis(2);

impl Sink {
    /// With one topic; keeps nothing of what it is sent but counts it, and checks checksums and sequences.
    pub(crate) fn start(bytes_per_second: u64, topic: &str, partitions: i32) -> Sink {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        // Else megabytes that the sink has not read yet wait in the kernel.
        socket.set_recv_buffer_size(PIECE).expect("SO_RCVBUF");
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
        socket.listen(16).expect("a listener");
        let listener = TcpListener::from(socket);
        let address = listener.local_addr().expect("an address");
        let options = Options { keep_log: false, check_records: false, ..Options::default() };
        let mut model = Model::new(options, [(1, address.ip().to_string(), address.port())]);
        let config = TopicConfig {
            min_insync_replicas: 1,
            max_message_bytes: 2 << 20,
            log_append_time: false,
            compacted: false,
            timestamp_after_max_ms: None,
        };
        assert!(model.create_topic(topic, partitions, 1, config));
        let pace = Pace {
            bytes_per_second: bytes_per_second as f64,
            next: Instant::now(),
            bytes: 0,
            idle: Duration::ZERO,
            stopped: false,
            open: Vec::new(),
        };
        let shared =
            Arc::new(Shared { model: Mutex::new(model), pace: Mutex::new(pace), changed: Condvar::new() });
        let accepting = shared.clone();
        let acceptor = std::thread::spawn(move || accept(&listener, &accepting));
        Sink { address, shared, acceptor: Some(acceptor) }
    }

    pub(crate) fn bootstrap(&self) -> String {
        self.address.to_string()
    }

    /// Messages that it took, each once.
    pub(crate) fn messages(&self) -> u64 {
        self.shared.model.lock().appended
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.shared.model.lock().violations.clone()
    }

    /// Bytes that came, and for how long in all none did.
    pub(crate) fn traffic(&self) -> (u64, Duration) {
        let pace = self.shared.pace.lock();
        (pace.bytes, pace.idle)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let mut pace = self.shared.pace.lock();
        pace.stopped = true;
        for socket in &pace.open {
            // It may be gone already.
            let _ = socket.shutdown(Shutdown::Both);
        }
        drop(pace);
        self.shared.changed.notify_all();
        // Only to wake the acceptor.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().expect("the acceptor ends");
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for (id, socket) in (1..).zip(listener.incoming()) {
        let Ok(socket) = socket else { continue };
        let mut pace = shared.pace.lock();
        if pace.stopped {
            return;
        }
        socket.set_nodelay(true).expect("TCP_NODELAY");
        pace.open.push(socket.try_clone().expect("a second handle of a socket"));
        let shared = shared.clone();
        std::thread::spawn(move || {
            // An error of the socket: the client is gone.
            let _ = serve(&shared, id, &socket);
        });
    }
}

fn serve(shared: &Shared, connection: u64, mut socket: &TcpStream) -> io::Result<()> {
    loop {
        let mut length = [0; 4];
        shared.read(&mut socket, &mut length)?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        for piece in frame.chunks_mut(PIECE) {
            shared.read(&mut socket, piece)?;
        }
        let request = Request::decode(Bytes::from(frame)).unwrap_or_else(|what| panic!("{what}"));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
        match shared.model.lock().handle(now, 1, connection, &request, false) {
            Step::Reply(reply) if reply.then == Then::GoOn => socket.write_all(&reply.bytes)?,
            other => panic!("no fault was ordered: {other:?}"),
        }
    }
}

impl Shared {
    /// Reads as fast as it may.
    fn read(&self, socket: &mut &TcpStream, buffer: &mut [u8]) -> io::Result<()> {
        let start = Instant::now();
        socket.read_exact(buffer)?;
        let now = Instant::now();
        let mut pace = self.pace.lock();
        pace.bytes += buffer.len() as u64;
        pace.idle += now - start;
        let cost = Duration::from_secs_f64(buffer.len() as f64 / pace.bytes_per_second);
        // What was not used of the past is lost, but for a little: sleeps are never exact.
        pace.next = pace.next.max(now.checked_sub(10 * GRAIN).unwrap_or(now)) + cost;
        let until = pace.next;
        while !pace.stopped && until > Instant::now() + GRAIN {
            self.changed.wait_until(&mut pace, until);
        }
        Ok(())
    }
}
