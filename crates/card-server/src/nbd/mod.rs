//! A card over NBD, on a unix socket.
//!
//! A server of our own, since none was found that replies when a reply is due and drops whom it
//! should. Any user can run it, and qemu, libnbd, fio and the kernel's client can use it. What is
//! spoken is in [`wire`]; [`negotiation`] is what is said before the first request and
//! [`transmission`] what is said after.

mod export;
mod incoming;
pub mod negotiation;
mod server;
pub mod transmission;
mod way;
pub mod wire;

pub use export::Export;
pub use incoming::{DropReason, Incoming};
pub use server::{NbdServer, SocketError, serve_client};

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Instant;

    use flashfit_card::CardRequest;
    use proptest::prelude::*;

    use super::*;
    use crate::nbd::export::tests::small_export;

    /// What a client of good manners says before its first request.
    fn begun() -> Vec<u8> {
        [&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 7, 0, 0, 0, 6], &[0; 6]].concat()
    }

    /// Requests of which some can be and others not, with more or less data after them.
    fn requests() -> impl Strategy<Value = Vec<u8>> {
        let request = (0..9_u16, 0..4_u16, 0..3000_u64, 0..40_u32, 0..30_000_usize).prop_map(
            |(command, flags, sector, sectors, extra)| {
                let (offset, length) = (sector * 512, sectors * 512);
                let request = wire::NbdRequest { flags, command, cookie: offset, offset, length };
                let data = if command == wire::command::WRITE { length as usize } else { 0 };
                let data = if extra < 100 { extra } else { data };
                [&request.to_bytes()[..], &vec![1; data]].concat()
            },
        );
        prop::collection::vec(request, 0..20).prop_map(|all| all.concat())
    }

    fn serves_on(export: &Export, said: &[u8]) {
        serve_client(said, io::sink(), export).expect_err("a client always ends");
        let mut buffer = [0; 512];
        let live = export.card();
        let now = Instant::now();
        live.submit(now, CardRequest::Write { offset: 0, data: &[7; 512] }).unwrap();
        live.submit(now, CardRequest::Read { offset: 0, buffer: &mut buffer }).unwrap();
        assert_eq!(buffer, [7; 512]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn whatever_a_client_says_the_card_serves_on(
            said in prop::collection::vec(any::<u8>(), 0..300),
            requests in requests(),
            queued in any::<bool>(),
        ) {
            let queue = [("[layer]", "[queue]\ndepth = 4\n[layer]")];
            let export = small_export(if queued { &queue } else { &[] });
            serves_on(&export, &said);
            serves_on(&export, &[begun(), said].concat());
            serves_on(&export, &[begun(), requests].concat());
        }
    }
}
