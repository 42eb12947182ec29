package litefoot

import "embed"

const folder = "prebuilds/linux-amd64"

//go:embed prebuilds/linux-amd64
var prebuilt embed.FS
