//! The trailer, offsets and module table of a Bun bundle.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whoseenv::binary::read::ReadAt;
use whoseenv::binary::regions::Regions;
use whoseenv::binary::{bun, product};

fuzz_target!(|bytes: &[u8]| {
    let mut file = bytes.to_vec();
    file.extend_from_slice(b"\n---- Bun! ----\n");
    if let Some(payload) = bun::payload(&file, &Default::default()).expect("memory can be read") {
        assert!(payload.range.end <= file.length());
        for range in &payload.scripts {
            assert!(range.start <= range.end && range.end <= file.length());
        }
        let _ = product::opencode(&file, &payload);
    }
    let code = Regions::code(&file).expect("memory can be read");
    let whole = code.part(0..code.length()).expect("memory can be read");
    assert!(whole.len() as u64 <= code.length());
});
