# The two container images, made by hand from a static busybox and our probe; sourced by cluster, never run.
# shellcheck shell=bash disable=SC2154

image=localhost/mctunnel-e2e/busybox:1
pause_image=localhost/mctunnel-e2e/pause:1

make_rootfs() { # DIR
  local applet
  mkdir -p "$1"/{bin,etc,root,tmp}
  chmod 1777 "$1/tmp"
  cp "$(command -v busybox)" "$1/bin/busybox"
  for applet in $(busybox --list); do [ "$applet" = busybox ] || ln -s busybox "$1/bin/$applet"; done
  cp "$cache/probe" "$1/bin/probe"
  echo 'root:x:0:0:root:/root:/bin/sh' >"$1/etc/passwd"
  echo 'root:x:0:' >"$1/etc/group"
}

image_config() { # LAYER COMMAND-AS-JSON
  printf '{"architecture":"%s","os":"linux","config":{"Env":["PATH=/bin"],"Cmd":%s},' "$(dpkg --print-architecture)" "$2"
  printf '"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' "$1"
}

# make_images FILE: one layer, two images, as an archive for `ctr images import`
make_images() {
  local work layer
  work=$(mktemp -d "$dir/image.XXXX")
  (umask 022 && make_rootfs "$work/rootfs")
  tar -C "$work/rootfs" --sort=name --numeric-owner --owner=0 --group=0 --mtime=@0 -cf "$work/layer.tar" .
  layer=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
  image_config "$layer" '["sh"]' >"$work/busybox.json"
  image_config "$layer" '["sleep","2147483647"]' >"$work/pause.json"
  cat >"$work/manifest.json" <<JSON
[{"Config":"busybox.json","RepoTags":["$image"],"Layers":["layer.tar"]},
 {"Config":"pause.json","RepoTags":["$pause_image"],"Layers":["layer.tar"]}]
JSON
  tar -C "$work" -cf "$1" manifest.json busybox.json pause.json layer.tar
  rm -rf "$work"
}
