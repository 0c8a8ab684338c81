//! The bytes of one connection, whatever carries them: today plain TCP, and the one place to put TLS into.

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

/// What a user may set on a socket; none: the system's default.
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketBuffers {
    pub send_bytes: Option<usize>,
    pub receive_bytes: Option<usize>,
}

/// An idle connection is probed after this long, because firewalls forget flows within minutes and tell nobody; the system's
/// own default is two hours.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
/// Between probes that nobody answers.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);

/// With epoll and kqueue a read or write that came up short emptied (or filled) the socket, and the next change makes a new
/// event. Elsewhere only "would block" arms the next event.
pub const SHORT_MEANS_DRAINED: bool = cfg!(unix);

/// One connection's bytes.
#[derive(Debug)]
pub enum Stream {
    Plain(TcpStream),
}

impl Stream {
    /// Starts to connect, without waiting for it.
    pub fn connect(addr: SocketAddr, buffers: SocketBuffers) -> io::Result<Stream> {
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY);
        socket.set_tcp_keepalive(&keepalive)?;
        // Before connecting: the window's scale is agreed on in the handshake.
        if let Some(bytes) = buffers.send_bytes {
            socket.set_send_buffer_size(bytes)?;
        }
        if let Some(bytes) = buffers.receive_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        match socket.connect(&addr.into()) {
            Ok(()) => {}
            Err(e) if is_in_progress(&e) => {}
            Err(e) => return Err(e),
        }
        Ok(Stream::Plain(TcpStream::from_std(socket.into())))
    }

    /// Whether it stands by now. To be asked after an event that says writable.
    pub fn is_connected(&self) -> io::Result<bool> {
        let Stream::Plain(socket) = self;
        if let Some(e) = socket.take_error()? {
            return Err(e);
        }
        let peer = match socket.peer_addr() {
            Ok(peer) => peer,
            Err(e) if e.kind() == ErrorKind::NotConnected || is_in_progress(&e) => return Ok(false),
            Err(e) => return Err(e),
        };
        // Where nobody listens on a local port that the system also gives out to clients, TCP can connect a socket to
        // itself; it would answer with our own requests, and keep the broker from coming back on its port.
        if socket.local_addr()? == peer {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        Ok(true)
    }

    pub fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Stream::Plain(socket) = self;
        socket.read(into)
    }

    pub fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let Stream::Plain(socket) = self;
        socket.write_vectored(slices)
    }

    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let Stream::Plain(socket) = self;
        registry.register(socket, token, Interest::READABLE | Interest::WRITABLE)
    }

    pub fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        let Stream::Plain(socket) = self;
        registry.deregister(socket)
    }
}

fn is_in_progress(e: &io::Error) -> bool {
    #[cfg(unix)]
    if e.raw_os_error() == Some(nix::errno::Errno::EINPROGRESS as i32) {
        return true;
    }
    e.kind() == ErrorKind::WouldBlock
}
