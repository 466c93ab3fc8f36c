//! Work that another provider's state holds is taken over by a `moved` block, and nothing of it is touched (G9).

use serde_json::{Value, json};

use super::{Bench, bench_by};
use crate::parts;
use crate::terraform::{Cli, FAILED, OK, Workspace};

/// A bench whose state holds `kubernetes_deployment_v1.old`, and whose configuration moves that to `loomplane_gpu_service.it`.
fn takeover(name: &str) -> Option<Bench<'static>> {
    let mut bench = bench_by(Cli::Terraform, name)?;
    let namespace = bench.namespace.name().to_owned();
    // Our own binary stands in for the other provider: core asks it for nothing but its schema.
    let folder = tempfile::tempdir().unwrap().keep();
    let other = folder.join("terraform-provider-kubernetes");
    std::os::unix::fs::symlink(parts::provider(), &other).unwrap();
    bench.work = Workspace::with_overrides(
        Cli::Terraform,
        &[
            ("loomplane/loomplane", &parts::provider()),
            ("hashicorp/kubernetes", &other),
        ],
    )?;
    bench.connections(&[("prod", "")], "");
    let state = json!({"version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": "a", "outputs": {}, "resources": [{
        "mode": "managed", "type": "kubernetes_deployment_v1", "name": "old", "provider": "provider[\"registry.terraform.io/hashicorp/kubernetes\"]",
        "instances": [{"schema_version": 1, "attributes": {"id": format!("{namespace}/it"), "metadata": [{"name": "it", "namespace": namespace, "labels": {}}]}}]}]});
    bench.work.file("terraform.tfstate", &state.to_string());
    bench.main(
        "resource \"loomplane_gpu_service\" \"it\" {\n  name = \"it\"\n  target = \"prod\"\n  image = \"registry.k8s.io/pause:3.10\"\n  env = { A = \"1\" }\n}\n\
         moved {\n  from = kubernetes_deployment_v1.old\n  to = loomplane_gpu_service.it\n}\n",
    );
    Some(bench)
}

/// The Deployment that the other provider made.
fn make(bench: &Bench<'_>) {
    bench.cluster.create(
        &format!("/apis/apps/v1/namespaces/{}/deployments", bench.namespace.name()),
        &json!({"metadata": {"name": "it"}, "spec": {"selector": {"matchLabels": {"app": "it"}}, "template": {
            "metadata": {"labels": {"app": "it"}},
            "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "env": [{"name": "A", "value": "1"}]}]}}}}),
    );
}

fn identity(bench: &Bench<'_>) -> Value {
    let metadata = &bench.deployment("it")["metadata"];
    json!([metadata["uid"], metadata["generation"]])
}

#[test]
fn g9_state_of_kubernetes_deployment_is_taken_over_without_touching_the_workload() {
    let Some(bench) = takeover("takeover") else {
        return;
    };
    make(&bench);
    let before = identity(&bench);
    bench
        .work
        .apply()
        .expect(OK)
        .says("0 added, 0 changed, 0 destroyed");
    bench.work.expect_no_changes();
    assert_eq!(identity(&bench), before, "nothing was written");
    assert_eq!(bench.state()["env"], json!({"A": "1"}));
}

#[test]
fn g9_a_moved_service_that_no_target_has_is_an_error_with_the_way_out() {
    let Some(bench) = takeover("nowhere") else {
        return;
    };
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("The moved it is on no configured target")
        .says(
            "Add the connection that it is on, or take it out of the state with a `removed` block",
        );
    // The other provider's state is what it was.
    assert!(bench.work.state_text().contains("kubernetes_deployment_v1"));
    assert!(!bench.cluster.exists(&bench.namespace.deployment("it")));
}

#[test]
fn g9_a_moved_service_that_could_be_on_two_targets_is_not_guessed() {
    let Some(bench) = takeover("twice") else {
        return;
    };
    make(&bench);
    let before = identity(&bench);
    bench.connections(&[("prod", ""), ("again", "")], "");
    let namespace = bench.namespace.name();
    bench
        .work
        .plan()
        .expect(FAILED)
        .says("The moved it is on several targets")
        .says(&format!("again/{namespace}/it, prod/{namespace}/it"));
    assert!(!bench.work.state_text().contains("loomplane_gpu_service"));
    assert_eq!(identity(&bench), before);
}
