//! The wire codecs against an independent implementation (`kafka-protocol`), in both directions and over every version
//! that both speak, against bytes that Java wrote, and against bytes that mean harm.

mod batches;
mod codecs;
mod codes;
mod hostile;
mod oracle;
mod requests;
mod responses;
mod versions;
