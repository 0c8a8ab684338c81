//! The sockets before the model: one thread that accepts, one for each connection, no timers but ordered delays.

use super::model::fault::Tail;
use super::model::request::Request;
use super::model::{Model, Reply, Step, Then};
use bytes::{Bytes, BytesMut};
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use parking_lot::{Condvar, Mutex, MutexGuard};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Brokers take no larger request (`socket.request.max.bytes`).
const LARGEST_REQUEST: i32 = 100 * 1024 * 1024;

const STOP: Token = Token(usize::MAX);

/// The brokers' sockets and threads.
pub(super) struct Server {
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
    waker: Waker,
}

pub(super) struct Shared {
    model: Mutex<Model>,
    net: Mutex<Net>,
    /// Something in `net` changed that a connection's thread may wait for.
    changed: Condvar,
    registry: Registry,
}

struct Net {
    stopped: bool,
    brokers: BTreeMap<i32, Endpoint>,
    /// Those whose thread still runs.
    connections: HashMap<u64, Connection>,
    /// Connections ever made.
    made: u64,
}

struct Endpoint {
    address: SocketAddr,
    /// Bound and never listening: it keeps the port while the broker is down.
    reservation: Option<Socket>,
    /// None: down.
    listener: Option<TcpListener>,
    hung: bool,
    /// Connections ever made to it.
    made: u64,
}

struct Connection {
    broker: i32,
    /// Another handle of the thread's socket, to end what it waits for.
    socket: TcpStream,
    /// The broker crashed, or was told to drop it.
    ended: bool,
}

/// Milliseconds since 1970.
pub(super) fn wall_clock() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64)
}

/// A bound port of this machine for each broker; 0 in `ports` lets the system choose.
pub(super) struct Ports(Vec<(i32, SocketAddr, Option<Socket>)>);

impl Ports {
    pub(super) fn bind(ports: impl IntoIterator<Item = (i32, u16)>) -> io::Result<Ports> {
        let bound = ports.into_iter().map(|(id, port)| {
            let socket = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
            let address = socket.local_addr()?.as_socket().expect("an address of IPv4");
            Ok((id, address, Some(socket)))
        });
        Ok(Ports(bound.collect::<io::Result<_>>()?))
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = (i32, SocketAddr)> + '_ {
        self.0.iter().map(|&(id, address, _)| (id, address))
    }
}

/// Where a second socket may be bound beside one that does not listen, the first one keeps the port for good.
const RESERVES: bool = cfg!(target_os = "linux");

fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn listen(socket: Socket) -> io::Result<TcpListener> {
    socket.listen(1024)?;
    socket.set_nonblocking(true)?;
    Ok(TcpListener::from_std(socket.into()))
}

impl Server {
    pub(super) fn start(model: Model, ports: Ports) -> io::Result<Server> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), STOP)?;
        let endpoints = ports.0.into_iter().map(|(id, address, reservation)| {
            let mut endpoint = Endpoint { address, reservation, listener: None, hung: false, made: 0 };
            if !RESERVES {
                endpoint.listener = Some(listen(endpoint.reservation.take().expect("just bound"))?);
            }
            Ok((id, endpoint))
        });
        let brokers = endpoints.collect::<io::Result<BTreeMap<_, _>>>()?;
        let net = Net { stopped: false, brokers, connections: HashMap::new(), made: 0 };
        let shared = Arc::new(Shared {
            model: Mutex::new(model),
            net: Mutex::new(net),
            changed: Condvar::new(),
            registry: poll.registry().try_clone()?,
        });
        let ids: Vec<i32> = shared.net.lock().brokers.keys().copied().collect();
        for id in ids {
            shared.open(id)?;
        }
        let accepting = shared.clone();
        let acceptor = std::thread::Builder::new()
            .name("steadfast-cluster".to_owned())
            .spawn(move || accept_all(&accepting, poll))?;
        Ok(Server { shared, acceptor: Some(acceptor), waker })
    }

    pub(super) fn model(&self) -> MutexGuard<'_, Model> {
        let mut model = self.shared.model.lock();
        model.tick(wall_clock());
        model
    }

    pub(super) fn address(&self, broker: i32) -> Option<SocketAddr> {
        self.shared.net.lock().brokers.get(&broker).map(|endpoint| endpoint.address)
    }

    /// Nobody listens there any more and all of its connections are gone.
    pub(super) fn crash(&self, broker: i32, tail: Tail) {
        // First the sockets: no answer may come from a broker that the model has buried.
        let mut net = self.shared.net.lock();
        if let Some(endpoint) = net.brokers.get_mut(&broker) {
            if let Some(mut listener) = endpoint.listener.take() {
                // Closing takes it out of the poller, should this fail.
                let _ = self.shared.registry.deregister(&mut listener);
            }
            endpoint.hung = false;
        }
        drop(net);
        self.disconnect(broker);
        self.shared.model.lock().crash(wall_clock(), broker, tail);
    }

    pub(super) fn restart(&self, broker: i32) -> io::Result<()> {
        self.shared.model.lock().restart(wall_clock(), broker);
        self.shared.open(broker)
    }

    /// All of the broker's connections are closed.
    pub(super) fn disconnect(&self, broker: i32) {
        let mut net = self.shared.net.lock();
        net.connections.values_mut().filter(|c| c.broker == broker).for_each(Connection::end);
        self.shared.changed.notify_all();
    }

    /// Nothing is accepted, read or answered there until told otherwise; connections stay.
    pub(super) fn hang(&self, broker: i32, hung: bool) -> io::Result<()> {
        let mut net = self.shared.net.lock();
        if let Some(endpoint) = net.brokers.get_mut(&broker) {
            endpoint.hung = hung;
            if let (Some(listener), false) = (&mut endpoint.listener, hung) {
                // Whoever waits to be accepted is told of again.
                self.shared.registry.reregister(listener, token(broker), Interest::READABLE)?;
            }
        }
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Connections that stand now, and all that ever were.
    pub(super) fn connections(&self, broker: i32) -> (usize, u64) {
        let net = self.shared.net.lock();
        let open = net.connections.values().filter(|c| c.broker == broker && !c.ended).count();
        (open, net.brokers.get(&broker).map_or(0, |endpoint| endpoint.made))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut net = self.shared.net.lock();
        net.stopped = true;
        net.connections.values_mut().for_each(Connection::end);
        self.shared.changed.notify_all();
        drop(net);
        // A waker that fails leaves the acceptor asleep: then it is left behind rather than waited for.
        if self.waker.wake().is_ok() {
            if let Some(Err(panic)) = self.acceptor.take().map(JoinHandle::join) {
                if !std::thread::panicking() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
        let mut net = self.shared.net.lock();
        while !net.connections.is_empty() {
            self.shared.changed.wait(&mut net);
        }
    }
}

fn token(broker: i32) -> Token {
    Token(broker as usize)
}

fn accept_all(shared: &Arc<Shared>, mut poll: Poll) {
    let mut events = Events::with_capacity(64);
    loop {
        match poll.poll(&mut events, None) {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => panic!("the embedded cluster can't wait for connections: {e}"),
            Ok(()) => {}
        }
        if shared.net.lock().stopped {
            return;
        }
        for event in events.iter().filter(|event| event.token() != STOP) {
            shared.accept(event.token().0 as i32);
        }
    }
}

impl Shared {
    /// The broker listens (again).
    fn open(&self, broker: i32) -> io::Result<()> {
        let mut net = self.net.lock();
        let Some(endpoint) = net.brokers.get_mut(&broker) else {
            return Err(ErrorKind::NotFound.into());
        };
        if RESERVES && endpoint.listener.is_some() {
            return Ok(());
        }
        let mut listener = match endpoint.listener.take() {
            Some(listener) => listener, // bound by `Ports`
            None => listen(bind(endpoint.address)?)?,
        };
        self.registry.register(&mut listener, token(broker), Interest::READABLE)?;
        endpoint.listener = Some(listener);
        Ok(())
    }

    /// Everybody who waits at this broker's door.
    fn accept(self: &Arc<Shared>, broker: i32) {
        loop {
            let mut net = self.net.lock();
            let Some(endpoint) = net.brokers.get_mut(&broker).filter(|endpoint| !endpoint.hung) else {
                return;
            };
            let Some(listener) = &endpoint.listener else {
                return;
            };
            let socket = match listener.accept() {
                Ok((socket, _)) => TcpStream::from(socket),
                Err(e) if e.kind() == ErrorKind::Interrupted || e.kind() == ErrorKind::ConnectionAborted => {
                    continue
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) => {
                    log::warn!("embedded broker {broker} can't accept a connection: {e}");
                    return;
                }
            };
            if let Err(e) = self.admit(&mut net, broker, socket) {
                log::warn!("embedded broker {broker} can't serve a connection: {e}");
            }
        }
    }

    fn admit(self: &Arc<Shared>, net: &mut Net, broker: i32, socket: TcpStream) -> io::Result<()> {
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        let connection = Connection { broker, socket: socket.try_clone()?, ended: false };
        let id = net.made;
        let shared = self.clone();
        std::thread::Builder::new().name(format!("steadfast-broker-{broker}")).spawn(move || {
            // Whatever ends it, the thread is counted out.
            let _leave = Leave { shared: &shared, id };
            Session { shared: &shared, broker, id, socket, buffer: BytesMut::new() }.serve();
        })?;
        net.made += 1;
        net.connections.insert(id, connection);
        if let Some(endpoint) = net.brokers.get_mut(&broker) {
            endpoint.made += 1;
        }
        Ok(())
    }

    /// Sleeps for `time`, and as long as the broker hangs; false: the connection was ended meanwhile.
    fn pause(&self, broker: i32, id: u64, time: Duration) -> bool {
        let mut net = self.net.lock();
        let due = (!time.is_zero()).then(|| Instant::now() + time);
        loop {
            if net.connections.get(&id).is_none_or(|connection| connection.ended) {
                return false;
            }
            let hung = net.brokers.get(&broker).is_some_and(|endpoint| endpoint.hung);
            match due.filter(|&due| Instant::now() < due) {
                Some(due) => {
                    self.changed.wait_until(&mut net, due);
                }
                None if hung => self.changed.wait(&mut net),
                None => return true,
            }
        }
    }
}

impl Connection {
    fn end(&mut self) {
        self.ended = true;
        // It may be gone already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

struct Leave<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.shared.net.lock().connections.remove(&self.id);
        self.shared.changed.notify_all();
    }
}

/// One connection, in a thread of its own.
struct Session<'a> {
    shared: &'a Shared,
    broker: i32,
    id: u64,
    socket: TcpStream,
    /// Used again where the log keeps nothing of it.
    buffer: BytesMut,
}

impl Session<'_> {
    /// Request after request, as a broker does it: the next one is read when the last one is answered.
    fn serve(&mut self) {
        let Ok(reading) = self.socket.try_clone() else {
            return;
        };
        let mut reader = BufReader::with_capacity(16 * 1024, reading);
        // Any error of the socket means that the client is gone, or that the connection was ended.
        while let Ok(frame) = self.read(&mut reader) {
            if !self.shared.pause(self.broker, self.id, Duration::ZERO) || !self.answer(&frame) {
                return;
            }
            self.buffer = frame.try_into_mut().unwrap_or_default();
        }
    }

    /// The next request, its length at the front.
    fn read(&mut self, reader: &mut impl Read) -> io::Result<Bytes> {
        let mut prefix = [0; 4];
        reader.read_exact(&mut prefix)?;
        let length = i32::from_be_bytes(prefix);
        if !(0..=LARGEST_REQUEST).contains(&length) {
            self.shared.model.lock().violation(format!("a request of {length} bytes"));
            return Err(ErrorKind::InvalidData.into());
        }
        let whole = length as usize + 4;
        let mut buffer = std::mem::take(&mut self.buffer);
        if buffer.len() < whole || buffer.len() > 4 * whole {
            buffer = BytesMut::zeroed(whole);
        }
        buffer[..4].copy_from_slice(&prefix);
        reader.read_exact(&mut buffer[4..whole])?;
        Ok(buffer.freeze())
    }

    /// False: the connection is to be closed.
    fn answer(&mut self, frame: &Bytes) -> bool {
        let length = i32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
        let request = match Request::decode(frame.slice(4..4 + length)) {
            Ok(request) => request,
            Err(reason) => {
                self.shared.model.lock().violation(format!("broker {}: {reason}", self.broker));
                return false;
            }
        };
        let mut taken_up = false;
        let reply = loop {
            let step =
                self.shared.model.lock().handle(wall_clock(), self.broker, self.id, &request, taken_up);
            match step {
                Step::Reply(reply) => break reply,
                Step::Later(time) if self.shared.pause(self.broker, self.id, time) => taken_up = true,
                Step::Later(_) => return false,
            }
        };
        drop(request);
        self.send(&reply)
    }

    fn send(&mut self, reply: &Reply) -> bool {
        let pause = |time| self.shared.pause(self.broker, self.id, time);
        if !pause(reply.delay) || self.socket.write_all(&reply.bytes).is_err() {
            return false;
        }
        match reply.then {
            Then::GoOn => reply.mute.is_zero() || pause(reply.mute),
            Then::Close => {
                // The client learns of it now, not when the last handle of the socket is gone.
                let _ = self.socket.shutdown(Shutdown::Both);
                false
            }
            Then::Freeze => {
                while pause(Duration::from_secs(3600)) {}
                false
            }
        }
    }
}
