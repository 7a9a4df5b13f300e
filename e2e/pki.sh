# Certificates and kubeconfigs of one cluster, in $dir; sourced by cluster, never run.
# shellcheck shell=bash disable=SC2154

issue() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -sha256 -days 7 \
    -config <(printf '[req]\ndistinguished_name=dn\n[dn]\n') "$@" 2>/dev/null
}

make_ca() { # FILE
  issue -subj "/CN=$name-$1" -keyout "$pki/$1.key" -out "$pki/$1.crt" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign
}

make_cert() { # FILE CA SUBJECT USAGE [NAMES]
  issue -CA "$pki/$2.crt" -CAkey "$pki/$2.key" -subj "$3" -keyout "$pki/$1.key" -out "$pki/$1.crt" \
    -addext basicConstraints=critical,CA:FALSE -addext keyUsage=critical,digitalSignature \
    -addext "extendedKeyUsage=$4" ${5:+-addext "subjectAltName=$5"}
}

make_pki() {
  local names="DNS:localhost,DNS:$name.hub.example.com,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
  mkdir -p "$pki"
  make_ca ca
  make_ca front-proxy-ca
  make_cert apiserver ca /CN=kube-apiserver serverAuth "$names,IP:127.0.0.1,IP:10.96.0.1,IP:$address"
  make_cert apiserver-client ca /O=system:masters/CN=kube-apiserver clientAuth
  make_cert front-proxy front-proxy-ca /CN=front-proxy clientAuth
  make_cert kubelet ca "/O=system:nodes/CN=system:node:$name" clientAuth
  make_cert kubelet-server ca "/O=system:nodes/CN=system:node:$name" serverAuth "DNS:$name,IP:$address"
  make_cert helloworld ca /CN=helloworld serverAuth DNS:helloworld.default.svc
  make_cert admin ca /O=system:masters/CN=admin clientAuth
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$pki/sa.key"
  openssl pkey -in "$pki/sa.key" -pubout -out "$pki/sa.pub"
}

# write_kubeconfig FILE: the user's credentials, as YAML, come on stdin
write_kubeconfig() {
  cat >"$1" <<YAML
apiVersion: v1
kind: Config
current-context: $name
clusters:
- name: $name
  cluster:
    server: $server
    certificate-authority-data: $(base64 -w0 "$pki/ca.crt")
contexts:
- name: $name
  context: {cluster: $name, user: user}
users:
- name: user
  user:
$(sed 's/^/    /')
YAML
}

certificate_kubeconfig() { # FILE CERTIFICATE
  printf 'client-certificate-data: %s\nclient-key-data: %s\n' \
    "$(base64 -w0 "$pki/$2.crt")" "$(base64 -w0 "$pki/$2.key")" | write_kubeconfig "$1"
}

token_kubeconfig() { # FILE SERVICE-ACCOUNT TOKEN-FILE
  kubectl -n kube-system create token "$2" --duration 24h >"$3"
  echo "token: $(cat "$3")" | write_kubeconfig "$1"
}
