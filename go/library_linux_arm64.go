package litefoot

import "embed"

const folder = "prebuilds/linux-arm64"

//go:embed prebuilds/linux-arm64
var prebuilt embed.FS
