//! A TCP proxy between a client and one broker, for the faults that only a network has: connections cut in the middle of a
//! frame, bytes that stop in one direction while the other goes on, delay.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    ToBroker,
    ToClient,
}

/// Where to cut one connection: within its frame number `frame` (the first is 0) of that way, after `percent` of its bytes.
/// At least one byte of the frame gets through, and at least one does not.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    pub way: Way,
    pub frame: u64,
    pub percent: u64,
}

type Plan = Box<dyn FnMut(u64) -> Option<Cut> + Send>;

/// Forwards until dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stopped: bool,
    /// Connections are closed as soon as they are accepted.
    refusing: bool,
    stalled: [bool; 2],
    delay: [Duration; 2],
    plan: Option<Plan>,
    accepted: u64,
    cuts: [u64; 2],
    open: HashMap<u64, [TcpStream; 2]>,
}

impl Proxy {
    /// Listens on `port` (0: any) of 127.0.0.1 and forwards to `broker`.
    pub fn start(port: u16, broker: SocketAddr) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("the proxy's port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        let acceptor = std::thread::spawn(move || accept(&listener, broker, &accepting));
        Proxy { address, shared, acceptor: Some(acceptor) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Asked for every new connection (numbered from 0) where it is to be cut. Open connections are not concerned.
    pub fn plan(&self, plan: impl FnMut(u64) -> Option<Cut> + Send + 'static) {
        self.shared.lock().plan = Some(Box::new(plan));
    }

    /// From now on new connections live.
    pub fn stop_cutting(&self) {
        self.shared.lock().plan = None;
    }

    /// Closes all connections now, wherever they are.
    pub fn cut_all(&self) {
        for streams in self.shared.lock().open.values() {
            close(streams);
        }
    }

    /// Holds back what goes this way, without closing anything; or lets it go on.
    pub fn stall(&self, way: Way, stalled: bool) {
        self.shared.lock().stalled[way as usize] = stalled;
        self.shared.changed.notify_all();
    }

    /// Every piece that goes this way is late by this much.
    pub fn delay(&self, way: Way, delay: Duration) {
        self.shared.lock().delay[way as usize] = delay;
    }

    /// Closes new connections at once.
    pub fn refuse(&self, refusing: bool) {
        self.shared.lock().refusing = refusing;
    }

    /// How many connections were cut in the middle of a frame that went this way.
    pub fn cuts(&self, way: Way) -> u64 {
        self.shared.lock().cuts[way as usize]
    }

    pub fn accepted(&self) -> u64 {
        self.shared.lock().accepted
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
        // Only to wake the acceptor; if that fails it is awake already.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().expect("the acceptor ends");
        }
        self.cut_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits out a stall and the delay; false when the proxy ends.
    fn pass(&self, way: Way) -> bool {
        let mut state = self.lock();
        let delay = state.delay[way as usize];
        if !delay.is_zero() {
            drop(state);
            std::thread::sleep(delay);
            state = self.lock();
        }
        while state.stalled[way as usize] && !state.stopped {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.stopped
    }
}

/// Closing a stream that the other side has closed already is an error that says nothing new.
fn close(streams: &[TcpStream; 2]) {
    for stream in streams {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

fn accept(listener: &TcpListener, broker: SocketAddr, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        let mut state = shared.lock();
        if state.stopped {
            return;
        }
        let Ok(client) = client else { continue };
        if state.refusing {
            continue;
        }
        let number = state.accepted;
        state.accepted += 1;
        let cut = state.plan.as_mut().and_then(|plan| plan(number));
        drop(state);
        // A broker that is away: the client's connection is dropped here and so closed.
        let Ok(server) = TcpStream::connect(broker) else { continue };
        forward(number, client, server, cut, shared);
    }
}

fn forward(number: u64, client: TcpStream, server: TcpStream, cut: Option<Cut>, shared: &Arc<Shared>) {
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("TCP_NODELAY");
    }
    let copy = |stream: &TcpStream| stream.try_clone().expect("a second handle of a socket");
    shared.lock().open.insert(number, [copy(&client), copy(&server)]);
    for (way, from, to) in
        [(Way::ToBroker, copy(&client), copy(&server)), (Way::ToClient, copy(&server), copy(&client))]
    {
        let cut = cut.filter(|cut| cut.way == way);
        let shared = Arc::clone(shared);
        std::thread::spawn(move || pump(number, way, from, to, cut, &shared));
    }
}

/// Copies one way until either end closes or the cut is reached, then closes both ways.
fn pump(number: u64, way: Way, mut from: TcpStream, mut to: TcpStream, cut: Option<Cut>, shared: &Shared) {
    let mut buffer = vec![0; 64 * 1024];
    let mut frames = cut.map(Frames::new);
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let until_cut = frames.as_mut().and_then(|frames| frames.read(&buffer[..read]));
        if !shared.pass(way) || to.write_all(&buffer[..until_cut.unwrap_or(read)]).is_err() {
            break;
        }
        if until_cut.is_some() {
            shared.lock().cuts[way as usize] += 1;
            break;
        }
    }
    if let Some(streams) = shared.lock().open.remove(&number) {
        close(&streams);
    }
    close(&[from, to]);
}

/// Follows Kafka's framing (four bytes of length, then as many bytes) and finds the place of the cut.
struct Frames {
    cut: Cut,
    frame: u64,
    /// Bytes of the present frame so far, the length's four included.
    at: u64,
    length: u64,
}

impl Frames {
    fn new(cut: Cut) -> Frames {
        Frames { cut, frame: 0, at: 0, length: 0 }
    }

    /// Looks at the next bytes; how many of them may pass if the cut is among them.
    fn read(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut n = 0;
        while n < bytes.len() {
            if self.at < 4 {
                self.length = self.length << 8 | u64::from(bytes[n]);
                self.at += 1;
                n += 1;
                continue;
            }
            let whole = 4 + self.length;
            let wanted = if self.frame == self.cut.frame {
                (whole * self.cut.percent / 100).min(whole - 1).max(4)
            } else {
                whole
            };
            let step = wanted.saturating_sub(self.at).min((bytes.len() - n) as u64);
            n += usize::try_from(step).expect("within the buffer");
            self.at += step;
            if self.frame == self.cut.frame && self.at >= wanted {
                return Some(n);
            }
            if self.at == whole {
                (self.frame, self.at, self.length) = (self.frame + 1, 0, 0);
            }
        }
        None
    }
}
