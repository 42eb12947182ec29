#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    litefoot_fuzz::run("member", bytes);
});
