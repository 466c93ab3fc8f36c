//! Estimates in the plan, limits, overrides (P1 to P5).

use serde_json::json;

use super::{bench, gpu, service};
use crate::terraform::{FAILED, HAS_CHANGES, OK};

#[test]
fn p4_p5_the_plan_shows_the_share_and_a_limit_holds() {
    let Some(bench) = bench("limit") else { return };
    let with = |limit: &str, replicas: u32| {
        service(&format!(
            "{}\n  replicas = {replicas}\n  max_hourly_usd = {limit}",
            gpu("nvidia-l4", 1)
        ))
    };
    bench.main(&with("1", 1));
    let change = bench.change();
    assert_eq!(change["after"]["hourly_usd"], 0.8048);
    // 730 hours: the API names no figure of its own.
    assert_eq!(change["after"]["monthly_usd"], 587.504);
    assert!(
        change["after"]["price"]
            .as_str()
            .unwrap()
            .contains("(estimate; AWS list price of us-east-1")
    );
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    bench.main(&with("1", 2));
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("Above the price limit")
        .says("1.6096")
        .says("max_hourly_usd");
    bench.main(&with("2", 2)).applied();
    bench.main(&with("1.5", 2));
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("Above the price limit");
}

#[test]
fn p1_an_unknown_price_does_not_pass_a_limit_and_is_null() {
    let Some(bench) = bench("unknownprice") else {
        return;
    };
    bench.connections(&[("prod", "")], "prices = { \"aws:g6.xlarge\" = 0 }");
    bench.main(&service(&gpu("nvidia-l4", 1)));
    let change = bench.change();
    assert_eq!(change["after"]["hourly_usd"], json!(null));
    assert_eq!(change["after"]["monthly_usd"], json!(null));
    assert_eq!(change["after_unknown"]["monthly_usd"], json!(null));
    assert_eq!(change["after"]["price"], "price unknown");
    bench.main(&service(&format!(
        "{}\n  max_hourly_usd = 100",
        gpu("nvidia-l4", 1)
    )));
    bench.work.plan().expect(FAILED).says("unknown");
    // Without GPUs there is no share, which a limit lets pass.
    bench.main(&service("max_hourly_usd = 1"));
    assert_eq!(bench.change()["after"]["price"], "no GPU share");
}

#[test]
fn p3_p4_an_override_goes_first_and_its_change_is_no_action() {
    let Some(bench) = bench("override") else {
        return;
    };
    bench.connections(&[("prod", "")], "prices = { \"aws:p5.48xlarge\" = 80 }");
    bench
        .main(
            &(service(&gpu("nvidia-h100-80gb", 2))
                + "output \"hourly\" {\n  value = loomplane_gpu_service.it.hourly_usd\n}\n"),
        )
        .applied();
    assert_eq!(bench.state()["hourly_usd"], 20);
    bench.connections(&[("prod", "")], "prices = { \"aws:p5.48xlarge\" = 40 }");
    // The output shows it; the resource has nothing to do.
    bench
        .work
        .plan()
        .expect(HAS_CHANGES)
        .says("hourly = 20 -> 10");
    let changes = bench.work.plan_json();
    assert_eq!(
        changes["resource_changes"][0]["change"]["actions"],
        json!(["no-op"])
    );
    bench
        .work
        .apply()
        .expect(OK)
        .says("0 added, 0 changed, 0 destroyed");
    assert_eq!(bench.work.output("hourly"), 10);
    bench.work.expect_no_changes();
    bench.connections(&[("prod", "")], "prices = { \"aws:p5.48xlarge\" = -1 }");
    bench.work.plan().expect(FAILED).says("negative");
}
