//! Mutual TLS with Terraform: a certificate for this process, and only the client certificate that Terraform announced.
//!
//! Terraform makes a self-signed certificate for each plugin process (ECDSA P-521, marked as a CA) and hands it over in
//! `PLUGIN_CLIENT_CERT`. No chain can be checked, and rustls's stock verifier refuses a CA as an end entity. So the certificate presented must
//! be the one announced, byte for byte, and its holder must prove the private key in the handshake. Needs aws-lc-rs, which knows P-521.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ParsedCertificate};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName as Subject, ServerConfig,
    SignatureScheme,
};
use thiserror::Error;

/// The name that Terraform expects in the server certificate.
const SERVER_NAME: &str = "localhost";

/// Why no TLS could be set up.
#[derive(Debug, Error)]
pub(crate) enum TlsError {
    #[error(
        "PLUGIN_CLIENT_CERT holds no readable PEM certificate. Terraform sets this variable itself; unset it if it comes from elsewhere"
    )]
    ClientCertificatePem(#[source] rustls::pki_types::pem::Error),
    #[error("PLUGIN_CLIENT_CERT holds {0} certificates, and Terraform announces exactly one")]
    ClientCertificateCount(usize),
    #[error("the certificate in PLUGIN_CLIENT_CERT is not a valid X.509 certificate")]
    ClientCertificate(#[source] rustls::Error),
    #[error("can't make a server certificate")]
    ServerCertificate(#[from] rcgen::Error),
    #[error("can't set up TLS")]
    Config(#[source] rustls::Error),
}

/// TLS for one plugin process.
pub(crate) struct ServerTls {
    pub(crate) config: Arc<ServerConfig>,
    /// Our certificate as the handshake line carries it: base64 of the DER, without padding.
    pub(crate) certificate: String,
}

impl ServerTls {
    /// Makes a fresh key and certificate, for a host that announced `client` (PEM).
    pub(crate) fn for_client(client: &str) -> Result<Self, TlsError> {
        let announced = announced_certificate(client)?;
        let provider = Arc::new(aws_lc_rs::default_provider());

        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![SERVER_NAME.to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, SERVER_NAME);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate: CertificateDer<'static> = params.self_signed(&key)?.into();
        let encoded = STANDARD_NO_PAD.encode(&certificate);

        let mut config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Config)?
            .with_client_cert_verifier(Arc::new(PinnedClient {
                announced,
                provider,
            }))
            .with_single_cert(
                vec![certificate],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            )
            .map_err(TlsError::Config)?;
        // Hosts built on newer gRPC libraries refuse a server that doesn't choose HTTP/2 here.
        config.alpn_protocols = vec![b"h2".to_vec()];
        // Every connection proves its certificate: nothing to resume.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self {
            config: Arc::new(config),
            certificate: encoded,
        })
    }
}

fn announced_certificate(pem: &str) -> Result<CertificateDer<'static>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let certificate = match found.map_err(TlsError::ClientCertificatePem)?.as_slice() {
        [one] => one.clone(),
        [] => {
            return Err(TlsError::ClientCertificatePem(
                rustls::pki_types::pem::Error::NoItemsFound,
            ));
        }
        more => return Err(TlsError::ClientCertificateCount(more.len())),
    };
    ParsedCertificate::try_from(&certificate).map_err(TlsError::ClientCertificate)?;
    Ok(certificate)
}

/// Accepts the announced certificate, and no other.
#[derive(Debug)]
struct PinnedClient {
    announced: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for PinnedClient {
    fn root_hint_subjects(&self) -> &[Subject] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        // No dates are checked: the certificate was made for this process, and lives as long.
        if end_entity.as_ref() == self.announced.as_ref() {
            Ok(ClientCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate() -> String {
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])
            .expect("made")
            .cert
            .pem()
    }

    #[test]
    fn one_certificate_is_read_and_anything_else_is_named() {
        let one = certificate();
        assert!(announced_certificate(&one).is_ok());
        assert!(announced_certificate(&format!("\n{one}\n")).is_ok());
        let two = format!("{one}{}", certificate());
        assert!(matches!(
            announced_certificate(&two),
            Err(TlsError::ClientCertificateCount(_))
        ));
        for broken in [
            "",
            "nonsense",
            "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n",
        ] {
            assert!(
                matches!(
                    announced_certificate(broken),
                    Err(TlsError::ClientCertificatePem(_))
                ),
                "{broken}"
            );
        }
        let not_x509 = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
        assert!(matches!(
            announced_certificate(not_x509),
            Err(TlsError::ClientCertificate(_))
        ));
    }

    #[test]
    fn p521_is_among_the_schemes_offered_to_the_client() {
        let tls = ServerTls::for_client(&certificate()).expect("TLS");
        let schemes = aws_lc_rs::default_provider()
            .signature_verification_algorithms
            .supported_schemes();
        assert!(schemes.contains(&SignatureScheme::ECDSA_NISTP521_SHA512));
        assert_eq!(tls.config.alpn_protocols, [b"h2".to_vec()]);
    }

    #[test]
    fn the_certificate_in_the_handshake_line_is_base64_without_padding() {
        for _ in 0..8 {
            let tls = ServerTls::for_client(&certificate()).expect("TLS");
            assert!(
                !tls.certificate.contains(['=', '-', '_', '\n', '|']),
                "{}",
                tls.certificate
            );
            let der = STANDARD_NO_PAD.decode(&tls.certificate).expect("base64");
            assert!(ParsedCertificate::try_from(&CertificateDer::from(der)).is_ok());
        }
    }
}
