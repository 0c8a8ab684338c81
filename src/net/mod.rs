//! The shell around the engine: sockets, names and compression. It judges nothing; it does what the engine asks for and says
//! what happened.
//!
//! Nothing here waits. A turn reads what has come (`receive`), lets the engine act (`perform`), and writes what is to go
//! (`transmit`), each connection a bounded share; what is left over has its turn next time (`has_work`).

mod connection;
mod helper;
mod input;
mod output;
mod stream;
#[cfg(test)]
mod tests;

use crate::engine::io::{CloseReason, CompressJob, ConnId, Event, NetAction};
use crate::protocol::frame::Frame;
use connection::{reason, Connection, Received};
pub use helper::Chores;
use helper::{Done, Helper};
use mio::{Registry, Token};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
pub use stream::SocketBuffers;
use stream::Stream;

/// All connections of a producer.
pub struct Net {
    registry: Registry,
    buffers: SocketBuffers,
    connections: HashMap<Token, Connection>,
    /// Those with something to read or to write, each once: what the others do costs nothing.
    to_read: Vec<Token>,
    to_write: Vec<Token>,
    /// Attempts that failed at once.
    failed: Vec<(ConnId, CloseReason)>,
    helper: Helper,
}

fn token(conn: ConnId) -> Token {
    Token(conn.0 as usize)
}

impl Net {
    /// `registry` is of the poll that the worker sleeps in; `wake` ends that sleep and is called on other threads.
    pub fn new(
        registry: Registry,
        buffers: SocketBuffers,
        chores: Chores,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Net {
        Net {
            registry,
            buffers,
            connections: HashMap::new(),
            to_read: Vec::new(),
            to_write: Vec::new(),
            failed: Vec::new(),
            helper: Helper::new(chores, wake),
        }
    }

    /// Remembers what the poll said. To be called for all its events before anything is closed.
    pub fn note(&mut self, events: &mio::Events) {
        for event in events {
            if let Some(connection) = self.connections.get_mut(&event.token()) {
                connection.note(event);
                list_to_read(&mut self.to_read, connection);
                list_to_write(&mut self.to_write, connection);
            }
        }
    }

    /// Whether there is something to do without waiting for the poll. To be asked before sleeping, once others can see that
    /// it is about to sleep.
    pub fn has_work(&self) -> bool {
        !self.to_read.is_empty()
            || !self.to_write.is_empty()
            || !self.failed.is_empty()
            || self.helper.has_done()
    }

    /// Tells what has happened: first what became of names, batches and attempts, then what came in.
    pub fn receive(&mut self, tell: &mut impl FnMut(Event<'_>)) {
        for (conn, reason) in self.failed.drain(..) {
            tell(Event::Closed { conn, reason });
        }
        while let Some(done) = self.helper.next_done() {
            tell(match done {
                Done::Resolved(conn, result) => Event::Resolved { conn, result },
                Done::Compressed(compressed) => Event::Compressed(compressed),
            });
        }
        for token in std::mem::take(&mut self.to_read) {
            let Some(connection) = self.connections.get_mut(&token) else { continue };
            connection.listed_to_read = false;
            match receive_from(connection, tell) {
                Ok(Received::Drained) => {}
                Ok(Received::More) => list_to_read(&mut self.to_read, connection),
                Err(reason) => {
                    let conn = connection.id;
                    self.close(conn);
                    tell(Event::Closed { conn, reason });
                    continue;
                }
            }
            list_to_write(&mut self.to_write, connection);
        }
    }

    /// Writes what was asked for, and tells how far it has gone.
    pub fn transmit(&mut self, tell: &mut impl FnMut(Event<'_>)) {
        for token in std::mem::take(&mut self.to_write) {
            let Some(connection) = self.connections.get_mut(&token) else { continue };
            connection.listed_to_write = false;
            if let Some(progress) = connection.transmit() {
                tell(Event::Written { conn: connection.id, begun: progress.begun, done: progress.done });
            }
            list_to_write(&mut self.to_write, connection);
            list_to_read(&mut self.to_read, connection); // where writing failed
        }
    }

    pub fn perform(&mut self, action: NetAction) {
        match action {
            NetAction::Resolve { conn, host, port } => self.helper.resolve(conn, host, port),
            NetAction::Open { conn, addr } => self.open(conn, addr),
            NetAction::Send { conn, frame } => self.send(conn, frame),
            NetAction::Close { conn } => self.close(conn),
        }
    }

    /// To the helper thread.
    pub fn compress(&mut self, job: CompressJob) {
        self.helper.compress(job);
    }

    /// At the end: at once, whatever is under way.
    pub fn close_all(&mut self) {
        self.connections.clear();
    }

    fn open(&mut self, conn: ConnId, addr: SocketAddr) {
        let opened = Stream::connect(addr, self.buffers).and_then(|mut stream| {
            stream.register(&self.registry, token(conn))?;
            Ok(stream)
        });
        match opened {
            Ok(stream) => {
                let before = self.connections.insert(token(conn), Connection::new(conn, stream));
                debug_assert!(before.is_none(), "{conn:?} was used twice");
            }
            Err(e) => self.failed.push((conn, reason(&e))),
        }
    }

    fn send(&mut self, conn: ConnId, frame: Frame) {
        // It may have ended, and the engine not know yet; it will be told that nothing of the frame was written.
        if let Some(connection) = self.connections.get_mut(&token(conn)) {
            connection.send(frame);
            list_to_write(&mut self.to_write, connection);
        }
    }

    fn close(&mut self, conn: ConnId) {
        self.helper.forget(conn);
        self.failed.retain(|(failed, _)| *failed != conn);
        if let Some(mut connection) = self.connections.remove(&token(conn)) {
            if let Err(e) = connection.stream.deregister(&self.registry) {
                log::debug!("a socket could not be taken out of the poller: {e}");
                // closing it does that too
            }
        }
    }
}

fn receive_from(
    connection: &mut Connection,
    tell: &mut impl FnMut(Event<'_>),
) -> Result<Received, CloseReason> {
    let conn = connection.id;
    if connection.check_opened()? {
        tell(Event::Opened { conn });
    }
    connection.receive(|frame| tell(Event::Frame { conn, frame }))
}

fn list_to_read(list: &mut Vec<Token>, connection: &mut Connection) {
    if connection.wants_to_read() && !connection.listed_to_read {
        connection.listed_to_read = true;
        list.push(token(connection.id));
    }
}

fn list_to_write(list: &mut Vec<Token>, connection: &mut Connection) {
    if connection.wants_to_write() && !connection.listed_to_write {
        connection.listed_to_write = true;
        list.push(token(connection.id));
    }
}
