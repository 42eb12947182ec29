use super::*;
use crate::harness::Silent;

#[test]
fn a_small_run_has_every_figure_and_is_the_same_again() {
    let figures = measure(16 << 20, 60, 3, &mut Silent).unwrap();
    figures.check().unwrap();
    for name in [
        "period_time.p5",
        "predictor_error.ewma.h2",
        "write_time.browser.all_k256",
        "write_time.alarm.litefoot_pram",
        "reduction.nand_writes_k256",
        "reduction.erases_k256",
        "reduction.time_all_k256",
        "reduction.time_litefoot",
        "wear.most_over_mean",
    ] {
        assert!(figures.get(name).is_some(), "{name}");
    }
    let flash = Ftl::aged(Geometry::of(16 << 20), FILLED_PERCENT, 3);
    for scheme in SCHEMES.iter().filter(|scheme| scheme.stack == Stack::Stock) {
        let run = || scheme.run(&APPS[4], &flash, 40, 3, &mut || Ok(())).unwrap();
        assert_eq!(run(), run(), "{}", scheme.name);
    }
}

#[test]
fn everything_on_pram_leaves_the_flash_alone_but_for_the_cold_chunks() {
    let flash = Ftl::aged(Geometry::of(16 << 20), FILLED_PERCENT, 3);
    let of = |name: &str| {
        let scheme = SCHEMES.iter().find(|scheme| scheme.name == name).unwrap();
        scheme.run(&APPS[5], &flash, 300, 3, &mut || Ok(())).unwrap().costs
    };
    let (nand, all) = (of("nand"), of("all_k64"));
    assert!(nand.nand.host_writes > 300 * 5);
    assert!(all.nand.host_writes < 60, "{all:?}");
    assert_eq!(of("nand").pram_bytes_written, 0);
}
