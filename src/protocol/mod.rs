//! Wire data only, no policy.
pub mod frame;
pub mod varint;
pub mod compression {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Codec {
        None = 0,
        Gzip = 1,
        Snappy = 2,
        Lz4 = 3,
        Zstd = 4,
    }
}
pub mod error_code {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct ErrorCode(pub i16);
    impl std::fmt::Display for ErrorCode {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.fmt(f)
        }
    }
}
