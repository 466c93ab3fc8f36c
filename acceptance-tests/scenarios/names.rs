//! Names of connections: renamed, gone, two for one cluster, two providers (G9).

use serde_json::{Value, json};

use super::{Bench, IT, REQUIRED, actions, bench, bench_by, cluster, gpu, service};
use crate::cluster::{Cluster, NodeGroup, Parts};
use crate::terraform::{Cli, FAILED, HAS_CHANGES, OK};

fn versions(bench: &Bench<'_>) -> [Value; 3] {
    let metadata = bench.deployment("it")["metadata"].clone();
    ["uid", "resourceVersion", "generation"].map(|name| metadata[name].clone())
}

#[test]
fn g9_the_same_cluster_under_another_name_is_an_update_that_touches_nothing() {
    for cli in Cli::BOTH {
        let Some(bench) = bench_by(cli, "rename") else {
            return;
        };
        bench.main(&service(&gpu("nvidia-l4", 1))).applied();
        let before = versions(&bench);
        bench.connections(&[("renamed", "")], "");
        bench.main(
            &service(&gpu("nvidia-l4", 1)).replace("target = \"prod\"", "target = \"renamed\""),
        );
        let plan = bench.work.plan().expect(HAS_CHANGES);
        assert!(
            plan.text().contains("0 to add, 1 to change, 0 to destroy"),
            "{}",
            plan.text()
        );
        let change = bench.work.change(IT);
        assert_eq!(
            change["after"]["hourly_usd"],
            change["before"]["hourly_usd"]
        );
        bench.work.apply_plan().expect(OK);
        bench.work.expect_no_changes();
        assert_eq!(versions(&bench), before);
        bench.work.destroy().expect(OK);
    }
}

#[test]
fn g9_another_cluster_is_a_new_service() {
    let (Some(one), Some(two)) = (cluster(), Cluster::own(Parts::All, &[super::l4(1)])) else {
        return;
    };
    let Some(bench) = Bench::on(one, Cli::any(), "move") else {
        return;
    };
    let there = two.namespace("move");
    let both = format!(
        "{REQUIRED}provider \"loomplane\" {{\n  clusters = {{\n    prod = {{ config_path = {:?}, namespace = {:?} }}\n    other = {{ config_path = {:?}, namespace = {:?} }}\n  }}\n}}\n",
        one.kubeconfig().display().to_string(),
        bench.namespace.name(),
        two.kubeconfig().display().to_string(),
        there.name()
    );
    bench.work.file("provider.tf", &both);
    let text = service(&format!(
        "{}\n  namespace = {:?}",
        gpu("nvidia-l4", 1),
        "default"
    ));
    bench.main(&text).applied();
    bench.main(&text.replace("target = \"prod\"", "target = \"other\""));
    let change = bench.change();
    assert_eq!(actions(&change), "delete-create");
    assert_eq!(change["replace_paths"], json!([["target"]]));
    bench.work.apply_plan().expect(OK);
    bench.work.expect_no_changes();
    assert!(!one.exists("/apis/apps/v1/namespaces/default/deployments/it"));
    assert!(two.exists("/apis/apps/v1/namespaces/default/deployments/it"));

    // Another cluster behind a known name is an error, never "gone".
    bench.work.file(
        "provider.tf",
        &both.replace(
            &two.kubeconfig().display().to_string(),
            &one.kubeconfig().display().to_string(),
        ),
    );
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("other is another cluster now")
        .says("destroy = false");
    bench.work.file("provider.tf", &both);
    bench.work.destroy().expect(OK);
}

#[test]
fn g9_without_rights_on_kube_system_another_name_is_not_taken_for_the_same_cluster() {
    let Some(bench) = bench("whichcluster") else {
        return;
    };
    let namespace = bench.namespace.name().to_owned();
    let services = json!([
        {"apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["services", "secrets", "pods", "events"], "verbs": ["*"]}
    ]);
    let blind = bench
        .cluster
        .kubeconfig_for(&namespace, "ci", &services, false);
    let refused = || {
        bench
            .work
            .plan()
            .expect(FAILED)
            .says("Can't tell whether renamed is the same cluster as before")
            .says("The target changes from prod to renamed")
            .says("Allow `get` on it");
    };
    let renamed = service("").replace("target = \"prod\"", "target = \"renamed\"");
    bench.main(&service("")).applied();
    let uid = bench.cluster.get("/api/v1/namespaces/kube-system")["metadata"]["uid"].clone();
    assert_eq!(bench.state()["target_uid"], uid);
    let before = versions(&bench);
    // The new name's credential may not look.
    bench.connections_with(&blind, &[("renamed", "")], "");
    bench.main(&renamed);
    refused();
    // The old name's could not: then nobody knows which cluster it was.
    bench.connections(&[("prod", "")], "");
    bench.main("removed {\n  from = loomplane_gpu_service.it\n  lifecycle {\n    destroy = false\n  }\n}\n");
    bench.work.apply().expect(OK);
    bench.connections_with(&blind, &[("prod", "")], "");
    bench.main(&service(""));
    bench
        .work
        .import(IT, &format!("prod/{namespace}/it"))
        .expect(OK);
    assert_eq!(bench.state()["target_uid"], "");
    bench.connections(&[("renamed", "")], "");
    bench.main(&renamed);
    refused();
    assert_eq!(versions(&bench), before, "nothing was written");
    // With the right on both sides the name is only a name.
    bench.connections(&[("prod", "")], "");
    bench.main(&service(""));
    bench.work.apply_with(&["-refresh-only"]).expect(OK);
    bench.connections(&[("renamed", "")], "");
    bench.main(&renamed);
    let change = bench.change();
    assert_eq!(actions(&change), "update");
    assert_eq!(change["before"]["target_uid"], uid);
}

#[test]
fn g9_a_name_is_one_target_s_only_and_made_of_letters_digits_and_dashes() {
    for cli in Cli::BOTH {
        let Some(bench) = bench_by(cli, "targetnames") else {
            return;
        };
        let server = |name: &str| {
            format!(
                "servers = {{\n    {name:?} = {{\n      host = \"gpu-01.invalid\"\n      user = \"ops\"\n    }}\n  }}"
            )
        };
        bench.main(&service(""));
        bench.connections(&[("prod", "")], &server("prod"));
        bench
            .work
            .plan()
            .expect(FAILED)
            .says("One name for two targets")
            .says("\"prod\" names a cluster and a server")
            .says("rename one of them");
        bench.connections(&[("prod", "")], &server("a.b"));
        bench
            .work
            .plan()
            .expect(FAILED)
            .says("Invalid target name")
            .says("\"a.b\" can't name a target. Use letters, digits, \"_\" and \"-\".");
        for name in ["a/b", "a b", "", "\u{e4}"] {
            bench.connections(&[("prod", ""), (&format!("{name:?}"), "")], "");
            bench.work.plan().expect(FAILED).says("Invalid target name");
        }
        bench.connections(&[("prod", ""), ("Prod_2-b", "")], "");
        bench.work.plan().expect(HAS_CHANGES);
    }
}

#[test]
fn g9_a_connection_that_is_gone_keeps_the_state_with_one_warning() {
    let Some(bench) = bench("gone") else { return };
    let two = service("") + &super::named("two", "");
    bench.main(&two).applied();
    bench.connections(&[("elsewhere", "")], "");
    let plan = bench.work.plan().expect(OK);
    let warning = "A target is no longer configured, so its GPU services were not checked";
    assert_eq!(plan.text().matches(warning).count(), 1, "{}", plan.text());
    // Changing or deleting it is an error with the way out.
    bench.main(&two.replace("registry.k8s.io/pause:3.10", "other"));
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("There is no target prod")
        .says("`removed` block with `lifecycle { destroy = false }`");
    bench.main("");
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("There is no target prod")
        .says("`removed` block with `lifecycle { destroy = false }`");
    bench.main("removed {\n  from = loomplane_gpu_service.it\n  lifecycle {\n    destroy = false\n  }\n}\nremoved {\n  from = loomplane_gpu_service.two\n  lifecycle {\n    destroy = false\n  }\n}\n");
    bench.work.apply().expect(OK);
    assert!(bench.cluster.exists(&bench.namespace.deployment("it")));
}

#[test]
fn two_aliases_of_the_provider_work_side_by_side() {
    let (Some(one), Some(two)) = (
        cluster(),
        Cluster::own(
            Parts::All,
            &[NodeGroup::new("a100", 1, 8)
                .label("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB")],
        ),
    ) else {
        return;
    };
    for cli in Cli::BOTH {
        let Some(bench) = Bench::on(one, cli, "alias") else {
            return;
        };
        let there = two.namespace("alias");
        let block = |alias: &str, cluster: &Cluster, namespace: &str| {
            format!(
                "provider \"loomplane\" {{\n  {alias}\n  clusters = {{\n    prod = {{ config_path = {:?}, namespace = {namespace:?} }}\n  }}\n}}\n",
                cluster.kubeconfig().display().to_string()
            )
        };
        bench.work.file(
            "provider.tf",
            &format!(
                "{REQUIRED}{}{}",
                block("", one, bench.namespace.name()),
                block("alias = \"far\"", &two, there.name())
            ),
        );
        bench.main(
            &(service(&gpu("nvidia-l4", 1))
                + &super::named(
                    "far",
                    &format!(
                        "provider = loomplane.far\n  wait = false\n  {}",
                        gpu("nvidia-a100-80gb-sxm", 4)
                    ),
                )),
        );
        let run = bench.work.plan();
        if run.code == Some(FAILED) {
            // The kind's name is the catalogue's: read it from there.
            bench.main(&(service(&gpu("nvidia-l4", 1)) + &super::named("far", "provider = loomplane.far\n  wait = false\n  size = { gpu = { kind = provider::loomplane::gpu_kind(\"NVIDIA-A100-SXM4-80GB\"), count = 4 } }")));
            bench.work.plan().expect(HAS_CHANGES);
        }
        bench.work.apply_plan().expect(OK);
        bench.work.expect_no_changes();
        assert!(two.exists(&there.deployment("far")));
        assert!(!one.exists(&bench.namespace.deployment("far")));
        bench.work.destroy().expect(OK);
        assert!(!two.exists(&there.deployment("far")));
    }
}
